#!/usr/bin/env bash
# Tests the launcher of //:dist with a fake program and fake LibTorch folders: where it searches,
# what it prints, and which program it executes.
set -u
launcher=$1
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/launcher test.XXXX")  # a path with a space
mkdir "$work/dist" "$work/empty"
cp -L "$launcher" "$work/dist/moonring"
cat >"$work/dist/moonring-bin" <<'HOST'
#!/bin/sh
printf '%s|%s|%s\n' "$LD_LIBRARY_PATH" "$$" "$*"
[ "${1:-}" != fail ] || exit 7
[ "${1:-}" != wait ] || sleep 600
HOST
chmod +x "$work/dist/moonring" "$work/dist/moonring-bin"

libtorch() {  # in folder $1, of version $2
  mkdir -p "$1/torch/lib" "$1/nvidia/cu13/lib"
  touch "$1/torch/__init__.py" "$1/torch/lib/libtorch_cpu.so"
  echo "__version__ = '$2'" >"$1/torch/version.py"
}
libtorch "$work/good" 2.11.0+cu130
libtorch "$work/other" 2.10.1+cpu

failures=0
# want NAME EXIT_CODE PATTERN COMMAND...: the command's output, both streams, matches the pattern.
want() {
  local name=$1 code=$2 pattern=$3 output rc
  shift 3
  output=$("$@" 2>&1)
  rc=$?
  if [ "$rc" -ne "$code" ] || [[ "$output" != $pattern ]]; then
    echo "$name: expected exit code $code and '$pattern', got $rc and '$output'"
    failures=$((failures + 1))
  fi
}
moonring() { env -u LD_LIBRARY_PATH -u PYTHONPATH "$@"; }
host=$work/dist/moonring

want "Python's torch" 0 "$work/good/torch/lib:$work/good/nvidia/cu13/lib|*|train 'a b' c" \
  moonring PYTHONPATH="$work/good" "$host" train "'a b'" c
want "what was on LD_LIBRARY_PATH stays, behind" 0 "*/cu13/lib:/before|*" moonring \
  PYTHONPATH="$work/good" LD_LIBRARY_PATH=/before "$host"
want "LD_LIBRARY_PATH before Python" 0 "/no:$work/good/torch/lib|*" moonring \
  PYTHONPATH="$work/other" LD_LIBRARY_PATH="/no:$work/good/torch/lib" "$host"
want "no torch" 2 "moonring: no LibTorch 2.11: /no/python has no torch*" moonring \
  MOONRING_PYTHON=/no/python "$host"
want "another version in Python" 2 "moonring: LibTorch 2.11 is required*2.10.1+cpu*" moonring \
  PYTHONPATH="$work/other" "$host"
want "another version on LD_LIBRARY_PATH" 2 "moonring: LibTorch 2.11 is required*2.10.1+cpu*" \
  moonring LD_LIBRARY_PATH="$work/other/torch/lib" "$host"
# A CUDA build only accepts a LibTorch with its CUDA version; a CPU build accepts any.
libtorch "$work/for cpu" 2.11.0+cpu
want "a LibTorch without CUDA" 0 "$work/for cpu/torch/lib:*" moonring PYTHONPATH="$work/for cpu" \
  "$host"
cp -r "$work/dist" "$work/cuda"
echo "# libtorch_cuda.so" >>"$work/cuda/moonring-bin"
want "a LibTorch without CUDA for a host with it" 2 "moonring: this Moonring is for CUDA 13, \
and $work/for cpu/torch/lib (of python3) is 2.11.0+cpu: install torch 2.11.0+cu130*" moonring \
  PYTHONPATH="$work/for cpu" "$work/cuda/moonring"
want "a LibTorch of the host's CUDA" 0 "$work/good/torch/lib:*" moonring PYTHONPATH="$work/good" \
  "$work/cuda/moonring"
libtorch "$work/own" 2.11.0a0+gitabcdef
want "a custom LibTorch" 0 "$work/own/torch/lib:*" moonring PYTHONPATH="$work/own" \
  "$work/cuda/moonring"
want "exit code" 7 "*|fail" moonring PYTHONPATH="$work/good" "$host" fail
ln -s "$host" "$work/link"
want "through a link" 0 "*|through" moonring PYTHONPATH="$work/good" "$work/link" through

# The launcher does not search the current folder.
# It runs Python without site-packages here, in which a torch may be installed.
printf '#!/bin/sh\nexec python3 -S "$@"\n' >"$work/bare_python"
chmod +x "$work/bare_python"
cd "$work/other" || exit 1
want "not the current folder" 2 "moonring: no LibTorch*" moonring \
  MOONRING_PYTHON="$work/bare_python" "$host"
cd "$work/empty" || exit 1

# The launcher executes the program in the same process, so a signal reaches it.
PYTHONPATH="$work/good" "$host" wait >"$work/out" &
pid=$!
until [ -s "$work/out" ]; do sleep 0.1; done
kill -TERM "$pid"
wait "$pid"
rc=$?
if [ "$rc" -ne 143 ] || [[ "$(cat "$work/out")" != *"|$pid|wait" ]]; then
  echo "a signal: expected exit code 143 of process $pid, got $rc and '$(cat "$work/out")'"
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] && echo "all as expected"
exit "$((failures > 0))"
