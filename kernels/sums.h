#ifndef MOONRING_KERNELS_SUMS_H_
#define MOONRING_KERNELS_SUMS_H_

// Sums over threads, for .cu files, in an order that depends only on the number of threads. Every
// thread of the block must call these functions.

#include "kernels/language.h"

namespace moonring::kernels::KERNEL_SIDE {

// The sum over a warp, returned in each lane.
template <typename W>
__device__ __forceinline__ W WarpSum(W x) {
  KERNEL_UNROLL for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x +=
      __shfl_xor_sync(kWholeWarp, x, lanes);
  return x;
}

// The sum over the threads with the same threadIdx.y, returned in each of them; blockDim.x is a
// multiple of 32. A block has at most 1024 threads.
template <typename W>
__device__ __forceinline__ W RowSum(W x) {
  x = WarpSum(x);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return x;
  KERNEL_SHARED(W, of_warp, 32);
  const int first = static_cast<int>(threadIdx.y) * warps,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // the previous sums have been read
  if (threadIdx.x % kWarp == 0) of_warp[first + warp] = x;
  __syncthreads();
  W sum = 0;
  for (int i = 0; i < warps; ++i) sum += of_warp[first + i];
  return sum;
}

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_SUMS_H_
