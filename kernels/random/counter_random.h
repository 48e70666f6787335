#ifndef MOONRING_KERNELS_RANDOM_COUNTER_RANDOM_H_
#define MOONRING_KERNELS_RANDOM_COUNTER_RANDOM_H_

// Stateless (counter-based) uniform random numbers: each number is a pure function U of its
// purpose.
//
//   CounterUniform    u[t, j] = U(seed, step, module, identity[t], j)    for token t in one step
//   InitialUniform    u[i]    = U(seed, name, i)                          for a weight's initial
//                                                                         values
//
// identity[t] is a number per token that does not depend on where the token is packed
// (comm/sequence.h). So a token draws the same numbers on any rank, in any order and in any
// micro-batch, and also when its block is recomputed in the backward: dropout and noise are exactly
// reproduced under sequence parallelism, packing, recompute and resume.
//
// U is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011): a bijection of a 128-bit counter under a 64-bit key, which passes BigCrush. One call
// yields four numbers.
//
//   key of (seed, step, module)    the first 64 bits of Philox(key = seed, counter = (step,
//                                  FNV-1a-64 of the module's name))
//   u[t, j]                        word j % 4 of Philox(key, counter = (j / 4, identity[t])), its
//                                  24 high bits times 2^-24
//   InitialUniform                 the same with step 2^64 - 1, which is never a training step, and
//                                  one identity, 0
//
// A value is a multiple of 2^-24 in [0, 1), exact in fp32, with the same bits on every device. On
// the CPU a loop computes it (4 ns per number and thread with AVX2, 8 without); on a GPU a kernel
// (kernels/philox.h) or, in a program without the kernel, integer tensor operations: about 55
// operators for each 2^24 numbers, 4 of them per Philox round.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::kernels {

// The 64-bit key with which a module draws its numbers in a step.
uint64_t CounterKey(uint64_t seed, uint64_t step, absl::string_view module);

// identity_T int64 [T], T >= 0 -> fp32 [T, width] on its device. comm/sequence.h defines the
// identity of a token; tokens with equal identities get equal rows. Throws for another shape or
// dtype, or a negative width.
at::Tensor CounterUniform(uint64_t key, const at::Tensor& identity_T, int64_t width);

// Returns fp32 on the CPU, of any shape.
at::Tensor InitialUniform(uint64_t seed, absl::string_view name, at::IntArrayRef sizes);

namespace internal {

// The implementation of CounterUniform by tensor operations, for devices without a kernel; works on
// any device.
at::Tensor CounterUniformByTensors(uint64_t key, const at::Tensor& identity_T, int64_t width);

}  // namespace internal

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_RANDOM_COUNTER_RANDOM_H_
