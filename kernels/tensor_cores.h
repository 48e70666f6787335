#ifndef MOONRING_KERNELS_TENSOR_CORES_H_
#define MOONRING_KERNELS_TENSOR_CORES_H_

// A warp's matrix product on tensor cores, for .cu files: d [16, 8] += a [16, 8] b [8, 8], with
// operands in TF32 and sums in fp32 (mma.sync m16n8k8; compute capability 8.0 and later). With g =
// lane / 4 and t = lane % 4 a lane has the elements
//
//   a   (g, t)   (g + 8, t)   (g, t + 4)   (g + 8, t + 4)
//   b   (t, g)   (t + 4, g)
//   d   (g, 2t)   (g, 2t + 1)   (g + 8, 2t)   (g + 8, 2t + 1)
//
// TF32 is fp32 with 10 instead of 23 explicit mantissa bits: rounding has a relative error of at
// most 2^-11, 2e-4 in root mean square, and products of two TF32 numbers are exact in fp32. A GPU
// ignores an operand's other 13 bits; that truncation would have twice the error, always towards
// zero, so round with Tf32 first. On the CPU an operand that is not rounded throws. A GPU may
// truncate sums in fp32, while the CPU rounds them. Source: PTX ISA, "Matrix Fragments for
// mma.m16n8k8".

#include "kernels/language.h"

#ifndef __CUDACC__
#include <cstring>
#include <stdexcept>
#endif

namespace moonring::kernels::KERNEL_SIDE {

// Rounds to nearest, ties away from zero.
__device__ __forceinline__ float Tf32(float x) {
#ifdef __CUDACC__
  uint32_t bits;
  asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
#else
  return fibers::Tf32OfFloat(x);
#endif
}

#ifdef __CUDACC__

__device__ __forceinline__ void MultiplyTf32(float (&d)[4], const float (&a)[4],
                                             const float (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

#else

struct Tf32Fragments {
  float (&d)[4];
  const float (&a)[4];
  const float (&b)[2];
};

inline float CheckedTf32(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(x));
  if ((bits & 0x1FFF) != 0) throw std::runtime_error("MultiplyTf32: an operand is not in TF32");
  return x;
}

inline void MultiplyFragments(const fibers::OfLanes& lanes) {
  float a[16][8], b[8][8];
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto& own = *static_cast<const Tf32Fragments*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) a[g + i % 2 * 8][t + i / 2 * 4] = CheckedTf32(own.a[i]);
    for (int i = 0; i < 2; ++i) b[t + i * 4][g] = CheckedTf32(own.b[i]);
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto& own = *static_cast<const Tf32Fragments*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const float(&row)[8] = a[g + i / 2 * 8];
      for (int k = 0; k < 8; ++k) own.d[i] += row[k] * b[k][2 * t + i % 2];
    }
  }
}

inline void MultiplyTf32(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
  Tf32Fragments fragments{d, a, b};
  fibers::AsWarp(KERNEL_PLACE, &fragments, &MultiplyFragments);
}

#endif  // __CUDACC__

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_TENSOR_CORES_H_
