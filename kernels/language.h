#ifndef MOONRING_KERNELS_LANGUAGE_H_
#define MOONRING_KERNELS_LANGUAGE_H_

// The language of the kernels, for .cu files only. Under nvcc it is CUDA C++; under g++ the same
// keywords are implemented by fibers.h, and a kernel runs on the CPU, thread by thread. In addition
// to CUDA's keywords there are:
//
//   Launch(shape, kernel, arguments...)       for kernel<<<...>>>(...); throws std::runtime_error
//   KERNEL_SHARED(type, name, count)          for __shared__ type name[count], 16-byte aligned
//   KERNEL_DYNAMIC_SHARED(type, name)         for extern __shared__ type name[], 32-byte aligned
//   KERNEL_UNROLL                             before a loop with a small constant trip count
//   Bf16, Half                                storage types; Wide(x) converts from them and
//                                             Narrow<T>(x) to them
// Warp operations involve the whole warp: block sizes are multiples of 32, the mask is kWholeWarp.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/launch.h"

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#define KERNEL_UNROLL _Pragma("unroll")
#define KERNEL_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define KERNEL_DYNAMIC_SHARED(type, name)                              \
  extern __shared__ __align__(32) unsigned char kernel_shared_bytes[]; \
  type* const name = reinterpret_cast<type*>(kernel_shared_bytes)

namespace moonring::kernels::on_cuda {

using Bf16 = __nv_bfloat16;
using Half = __half;

template <typename... Parameters, typename... Arguments>
void Launch(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  const dim3 grid(static_cast<unsigned>(shape.grid_x), static_cast<unsigned>(shape.grid_y)),
      block(static_cast<unsigned>(shape.block_x), static_cast<unsigned>(shape.block_y));
  kernel<<<grid, block, static_cast<size_t>(shape.shared_bytes),
           static_cast<cudaStream_t>(shape.stream)>>>(static_cast<Parameters>(arguments)...);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("a kernel's launch: ") + cudaGetErrorString(error));
}

}  // namespace moonring::kernels::on_cuda

#else

#include "kernels/fibers.h"

#define KERNEL_UNROLL _Pragma("GCC unroll 8")
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (::moonring::kernels::fibers::Here().thread)
#define blockIdx (::moonring::kernels::fibers::Here().block)
#define blockDim (::moonring::kernels::fibers::Here().block_size)
#define gridDim (::moonring::kernels::fibers::Here().grid_size)
#define KERNEL_PLACE \
  ::moonring::kernels::fibers::Place { __FILE__, __LINE__ }
#define __syncthreads() ::moonring::kernels::fibers::WaitForBlock(KERNEL_PLACE)
#define __syncwarp() ((void)::moonring::kernels::fibers::Shuffle(KERNEL_PLACE, ~0u, 0, 0))
#define __shfl_sync(mask, value, lane) \
  ::moonring::kernels::fibers::Shuffle(KERNEL_PLACE, mask, value, lane)
#define __shfl_xor_sync(mask, value, lanes)                       \
  ::moonring::kernels::fibers::Shuffle(KERNEL_PLACE, mask, value, \
                                       ::moonring::kernels::fibers::Lane() ^ (lanes))
#define __shfl_down_sync(mask, value, lanes)                      \
  ::moonring::kernels::fibers::Shuffle(KERNEL_PLACE, mask, value, \
                                       ::moonring::kernels::fibers::LaneDown(lanes))
#define __ballot_sync(mask, value) \
  ::moonring::kernels::fibers::Ballot(KERNEL_PLACE, mask, (value) != 0)
#define KERNEL_SHARED(type, name, count) \
  type* const name = static_cast<type*>( \
      ::moonring::kernels::fibers::Shared(__COUNTER__ + 1, sizeof(type) * (count)))
#define KERNEL_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::moonring::kernels::fibers::DynamicShared())

namespace moonring::kernels::on_cpu {

struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

template <typename... Parameters, typename... Arguments>
void Launch(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  fibers::Run(shape, [&] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace moonring::kernels::on_cpu

#endif  // __CUDACC__

namespace moonring::kernels::KERNEL_SIDE {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kWarp = 32;

// The type of arithmetic on T.
template <typename T>
using WideOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float Wide(float x) { return x; }
__device__ inline double Wide(double x) { return x; }
#ifdef __CUDACC__
__device__ inline float Wide(Bf16 x) { return __bfloat162float(x); }
__device__ inline float Wide(Half x) { return __half2float(x); }
#else
inline float Wide(Bf16 x) { return fibers::FloatOfBf16(x.bits); }
inline float Wide(Half x) { return fibers::FloatOfHalf(x.bits); }
#endif

// Rounds to nearest, ties to even.
template <typename T>
__device__ inline T Narrow(WideOf<T> x) {
  if constexpr (std::is_same_v<T, Bf16>) {
#ifdef __CUDACC__
    return __float2bfloat16_rn(x);
#else
    return {fibers::Bf16OfFloat(x)};
#endif
  } else if constexpr (std::is_same_v<T, Half>) {
#ifdef __CUDACC__
    return __float2half_rn(x);
#else
    return {fibers::HalfOfFloat(x)};
#endif
  } else {
    return x;
  }
}

// A product that is rounded separately, so that the compiler cannot fuse it into an FMA.
__device__ inline float Product(float a, float b) {
#ifdef __CUDACC__
  return __fmul_rn(a, b);
#else
  volatile const float product = a * b;
  return product;
#endif
}

__device__ inline float Rsqrt(float x) {
#ifdef __CUDACC__
  return rsqrtf(x);
#else
  return 1.0f / std::sqrt(x);
#endif
}
__device__ inline double Rsqrt(double x) { return 1.0 / sqrt(x); }
__device__ inline float Exp(float x) { return expf(x); }
__device__ inline double Exp(double x) { return exp(x); }
__device__ inline float Tanh(float x) { return tanhf(x); }
__device__ inline double Tanh(double x) { return tanh(x); }
__device__ inline float Erf(float x) { return erff(x); }
__device__ inline double Erf(double x) { return erf(x); }

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_LANGUAGE_H_
