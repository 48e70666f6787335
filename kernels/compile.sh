#!/bin/sh
# Compiles a kernel's source for every GPU that LibTorch 2.11 for CUDA 13 supports, and as PTX for
# later GPUs: compile.sh NVCC SOURCE OBJECT REPORT [OPTION...], in the repository's root. Writes
# ptxas's output to REPORT: registers and spills of each kernel on each architecture.
nvcc=$1 source=$2 object=$3 report=$4
shift 4
"$nvcc" -c -std=c++20 -O3 -I. --threads 2 -Xcompiler -fPIC,-O2 -Xptxas -v \
  -gencode "arch=compute_80,code=[sm_80,compute_80]" \
  -gencode "arch=compute_89,code=sm_89" \
  -gencode "arch=compute_90,code=sm_90" \
  -gencode "arch=compute_100,code=sm_100" \
  -gencode "arch=compute_120,code=[sm_120,compute_120]" \
  "$@" "$source" -o "$object" >"$report" 2>&1 && exit
cat "$report" >&2
exit 1
