#ifndef MOONRING_KERNELS_PHILOX_H_
#define MOONRING_KERNELS_PHILOX_H_

// Generates the random numbers of kernels/random/counter_random.h on the device where they are used
// (operators moonring::counter_uniform and moonring::dropout_). With u_tj = CounterUniform(key,
// identity, width)[t, j], bit for bit, where identity_t is a number per token (comm/sequence.h):
//
//   u                                            4 T W bytes written
//   out_tj = u_tj >= rate ? x_tj / (1 - rate) : 0   2 T W elements read and written; u not stored
//
// T tokens, W = width numbers each. x_TW is in fp32, fp64, bf16 or fp16; `rate` is rounded to fp32.
// T and W may be zero.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kCounterUniform[] = "moonring::counter_uniform";
inline constexpr char kDropout[] = "moonring::dropout_";

// identity_T is int64; returns fp32 [T, width].
at::Tensor UniformByKernel(uint64_t key, const at::Tensor& identity_T, int64_t width);

// Dropout returns a new tensor; DropoutInPlace overwrites x, whose rows are contiguous.
at::Tensor Dropout(const at::Tensor& x_TW, uint64_t key, const at::Tensor& identity_T, double rate);
void DropoutInPlace(at::Tensor x_TW, uint64_t key, const at::Tensor& identity_T, double rate);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PHILOX_H_
