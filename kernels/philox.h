#ifndef MOONRING_KERNELS_PHILOX_H_
#define MOONRING_KERNELS_PHILOX_H_

// kernels/random/counter_random.h's numbers, made where they are used (operators
// moonring::counter_uniform and moonring::dropout_): with u_tj = CounterUniform(key, identity,
// width)[t, j], bit for bit,
//
//   u                                            4 T W bytes written
//   out_tj = u_tj >= rate ? x_tj / (1 - rate) : 0   2 T W elements moved, and none of u
//
// x_TW in one of fp32, fp64, bf16, fp16; `rate` as fp32. Any T and W, zero among them.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kCounterUniform[] = "moonring::counter_uniform";
inline constexpr char kDropout[] = "moonring::dropout_";

// identity_T int64 -> fp32 [T, width].
at::Tensor UniformByKernel(uint64_t key, const at::Tensor& identity_T, int64_t width);

// A fresh tensor; and in the place of x itself, whose rows have no gaps in them.
at::Tensor Dropout(const at::Tensor& x_TW, uint64_t key, const at::Tensor& identity_T, double rate);
void DropoutInPlace(at::Tensor x_TW, uint64_t key, const at::Tensor& identity_T, double rate);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PHILOX_H_
