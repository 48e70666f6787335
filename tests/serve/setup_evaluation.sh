#!/usr/bin/env bash
# Makes the Python environment in which tests/serve/evaluation_test.py runs lm-eval 0.4.13 and the
# openai SDK 3.57.0 against `moonring serve`, and Transformers with torch beside it. About 2 GB;
# does nothing where it has been done.
#   setup_evaluation.sh [FOLDER]    default: $MOONRING_EVALUATION, or ~/.cache/moonring-evaluation
# Prints the folder: FOLDER/bin/python, FOLDER/bin/lm_eval.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${MOONRING_EVALUATION:-${HOME:-/tmp}/.cache/moonring-evaluation}}
version=$(cksum < "$here/requirements_evaluation.txt")
is_done() { [ "$(cat "$folder/done" 2> /dev/null)" = "$version" ]; }
if ! is_done; then  # a folder that is done may be read-only
  mkdir -p "$folder"
  exec 9> "$folder/lock"
  flock 9
fi
if ! is_done; then
  [ -x "$folder/bin/python" ] || python3 -m venv "$folder"
  pip() { "$folder/bin/python" -m pip --disable-pip-version-check --quiet "$@" 1>&2; }
  # What torch needs for GPUs alone is left out (3 GB) where the CUDA toolkit has it.
  if [ -d /usr/local/cuda/lib64 ]; then
    pip install --no-deps torch==2.11.0 nvidia-cufile==1.15.1.6 nvidia-cusparselt-cu13==0.8.0 \
      nvidia-nvshmem-cu13==3.4.5
  else
    pip install torch==2.11.0
  fi
  pip install -r "$here/requirements_evaluation.txt"
  echo "$version" > "$folder/done"
fi
echo "$folder"
