#!/usr/bin/env bash
# Tests libmoonring.so in //:dist: a C program that is compiled and linked without Bazel fine-tunes
# a model, using only the files in that folder.
#   library_test.sh DIST PROGRAM.c GOLDEN_FOLDER
set -eu
dist=$(realpath -e "$1") program=$2 golden=$3
# in the runfiles
libraries=$(find -L "$PWD" -name '*.so*' -path '*libtorch*' -printf '%h\n' | sort --unique \
  | paste --serial --delimiters=:)
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/library.XXXX")
cp -rL "$golden/model" "$golden/data" "$work" # without links to other folders
export LD_LIBRARY_PATH=$libraries
unset RUNFILES_DIR TEST_SRCDIR # as outside of Bazel

cc -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Werror -I"$dist" "$program" \
  "$dist/lib/libmoonring.so" -Wl,-rpath,"$dist/lib" -o "$work/fine_tune"
cat >"$work/config.yaml" <<YAML
model_name_or_path: $work/model
dataset_dir: $work/data
dataset: talks
stage: sft
template: chatml
cutoff_len: 160
output_dir: $work/out
max_steps: 2
logging_steps: 1
YAML
cd "$work"
./fine_tune "$work" config.yaml learning_rate=1e-3 >progress
grep -q '"event":"step".*"step":2' progress
test -s out/adapter_model.safetensors
rc=0
./fine_tune "$work" config.yaml no_such_key=1 2>why || rc=$?
[ "$rc" -ne 0 ] && grep -q "no_such_key" why
echo "all as expected"
