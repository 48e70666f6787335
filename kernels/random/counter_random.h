#ifndef MOONRING_KERNELS_RANDOM_COUNTER_RANDOM_H_
#define MOONRING_KERNELS_RANDOM_COUNTER_RANDOM_H_

// Uniform random numbers without a state: each is a function of what it is for, and of nothing
// else.
//
//   CounterUniform    u[t, j] = U(seed, step, module, identity[t], j)    of one token in one step
//   InitialUniform    u[i]    = U(seed, name, i)                          of a weight's first
//                             values
//
// So a token draws the same numbers on whatever rank, in whatever order and in whatever micro-batch
// it lies, and again when its block is run a second time in backward: dropout and noise are exact
// under sequence parallelism, packing, recompute and resume.
//
// U is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011): a bijection of a 128-bit counter under a 64-bit key, that passes BigCrush. One call gives
// four numbers.
//
//   key of (seed, step, module)    the first 64 bits of Philox(key = seed, counter = (step,
//                                  FNV-1a-64 of the module's name))
//   u[t, j]                        word j % 4 of Philox(key, counter = (j / 4, identity[t])), its
//                                  24 high bits times 2^-24
//   InitialUniform                 the same with step 2^64 - 1, which no step is, and one identity,
//                                  0
//
// A value is a multiple of 2^-24 in [0, 1), exact in fp32. The same bits on every device: on the
// CPU by a loop (4 ns a number and thread with AVX2, 8 without), on a GPU by a kernel
// (kernels/philox.h), and where there is none by integer tensor operations: some 55 operators
// for each 2^24 numbers, 4 of them a round.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::kernels {

// The 64 bits under which a module draws in a step.
uint64_t CounterKey(uint64_t seed, uint64_t step, absl::string_view module);

// identity_T int64 [T], T >= 0 -> [T, width] fp32 on its device. What identifies a token is
// sequence.h's; equal identities draw equal rows. Throws where the shape or dtype is another, or
// width is negative.
at::Tensor CounterUniform(uint64_t key, const at::Tensor& identity_T, int64_t width);

// fp32 on the CPU, of any shape.
at::Tensor InitialUniform(uint64_t seed, absl::string_view name, at::IntArrayRef sizes);

namespace internal {

// CounterUniform as it runs on devices other than the CPU; on any device.
at::Tensor CounterUniformByTensors(uint64_t key, const at::Tensor& identity_T, int64_t width);

}  // namespace internal

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_RANDOM_COUNTER_RANDOM_H_
