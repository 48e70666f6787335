#!/bin/sh
# Starts the program with LibTorch on its library path: the one on LD_LIBRARY_PATH, otherwise that
# of the torch package of ${MOONRING_PYTHON:-python3}. Replaces itself (exec) by moonring-bin next
# to this file, so signals and exit codes are the program's.
set -f
wanted=2.11

fail() {
  printf 'moonring: %s\n' "$*" >&2
  exit 2
}

# The version of the LibTorch in folder $1: a wheel has it in version.py, a LibTorch archive in
# build-version.
version() {
  if [ -r "$1/../version.py" ]; then
    sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$1/../version.py"
  elif [ -r "$1/../build-version" ]; then
    head -n 1 "$1/../build-version"
  fi
}

remedy="pip install 'torch==$wanted.*'"
other="set MOONRING_PYTHON to a Python that has it"

check() {
  found=$(version "$1")
  case $found in
    "" | $wanted | $wanted.* | $wanted+*) ;;
    *) fail "LibTorch $wanted is required, and $1 ($2) is $found: $remedy there, or $other" ;;
  esac
  # A CUDA build needs a LibTorch for the same CUDA. Without this check the loader would only report
  # a missing library.
  case $found in
    *+cpu* | *+cu[0-9][0-9] | *+cu1[0-2]* | *+rocm* | *+xpu*)
      if grep -qa libtorch_cuda.so "$here/moonring-bin"; then
        fail "this Moonring is for CUDA 13, and $1 ($2) is $found: install torch $wanted.0+cu130" \
          "there, or $other"
      fi
      ;;
  esac
}

self=$(readlink -f -- "$0") || fail "cannot tell where $0 is"
here=${self%/*}
export MOONRING_CALLED_AS="$0" # for the commands that a run proposes at its end

before=$IFS
IFS=:
for folder in ${LD_LIBRARY_PATH:-}; do
  if [ -e "$folder/libtorch_cpu.so" ]; then
    IFS=$before
    check "$folder" "on LD_LIBRARY_PATH"
    exec "$here/moonring-bin" "$@"
  fi
done
IFS=$before

# Finds the torch package without importing it, which would take seconds. The current folder is not
# searched, because something else there may be called torch.
python=${MOONRING_PYTHON:-python3}
torch=$("$python" -c '
import sys
sys.path[:] = [entry for entry in sys.path if entry]
from importlib.util import find_spec
spec = find_spec("torch")
print(list(spec.submodule_search_locations)[0] if spec and spec.submodule_search_locations else "")
' 2>/dev/null </dev/null) || torch=
if [ -z "$torch" ] || [ ! -e "$torch/lib/libtorch_cpu.so" ]; then
  fail "no LibTorch $wanted: $python has no torch ($remedy, or $other)," \
    "and LD_LIBRARY_PATH has no libtorch_cpu.so"
fi
check "$torch/lib" "of $python"

libraries=$torch/lib
set +f
# The libraries of the wheels that torch needs for CUDA, and Arrow's, for Parquet files.
for folder in "${torch%/*}"/nvidia/*/lib "${torch%/*}/pyarrow"; do
  if [ -d "$folder" ]; then libraries=$libraries:$folder; fi
done
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/moonring-bin" "$@"
