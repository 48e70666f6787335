#!/usr/bin/env bash
# Makes the Python environments of the clients that tests/serve runs against `moonring serve`:
# tinker 0.38.0 with tinker-cookbook 0.6.1, and tinker 0.27.2. About 2 GB, with torch; does nothing
# where it has been done.
#   setup_clients.sh [FOLDER]    default: $MOONRING_CLIENTS, or ~/.cache/moonring-clients
# Prints the folder: FOLDER/newest/bin/python, FOLDER/older/bin/python.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${MOONRING_CLIENTS:-${HOME:-/tmp}/.cache/moonring-clients}}
version=$(cat "$here"/requirements_{newest,older}.txt | cksum)
is_done() { [ "$(cat "$folder/done" 2> /dev/null)" = "$version" ]; }
if is_done; then # needs no right to write
  echo "$folder"
  exit
fi
mkdir -p "$folder"
exec 9> "$folder/lock"
flock 9
if ! is_done; then
  for name in newest older; do
    [ -x "$folder/$name/bin/python" ] || python3 -m venv "$folder/$name"
    pip() { "$folder/$name/bin/python" -m pip --disable-pip-version-check --quiet "$@" 1>&2; }
    # What torch needs for GPUs alone is left out (3 GB) where the CUDA toolkit has it.
    if [ $name = newest ]; then
      if [ -d /usr/local/cuda/lib64 ]; then
        pip install --no-deps torch==2.11.0 nvidia-cufile==1.15.1.6 \
          nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5
      else
        pip install torch==2.11.0
      fi
      # Without dependencies: one of them, a renderer of other models, is not available for every
      # version of Python, and the recipes that are run here do not need it.
      pip install --no-deps tinker-cookbook==0.6.1
    fi
    pip install -r "$here/requirements_$name.txt"
  done
  echo "$version" > "$folder/done"
fi
echo "$folder"
