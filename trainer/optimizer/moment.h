#ifndef MOONRING_TRAINER_OPTIMIZER_MOMENT_H_
#define MOONRING_TRAINER_OPTIMIZER_MOMENT_H_

// An optimizer moment: one number per weight element, stored in fp32 or in fewer bytes. Updates are
// computed in fp32, piece by piece, and rounded when stored.
//
//   kFull   the gradient's dtype (fp32; fp64 for fp64)      4 bytes per element
//   kBf16   bf16                                            2
//   k8Bit   an 8-bit code, and the largest magnitude
//           of each kBlock elements in fp32                 1 + 1/64
//
// kBf16: the mean of gradients is rounded to nearest. A step moves it by the fraction 1 - beta1 =
// 1/10 of the difference to the gradient, which is much more than bf16's half unit of 2^-9. The
// mean of squares moves by a fraction of 1 - beta2 = 1/1000, less than the half unit; with rounding
// to nearest it could never decrease. It is therefore rounded stochastically, which is correct on
// average. The random numbers are counter-based (kernels/random), keyed by the step, the weight's
// name and the element's index in the whole weight, so they do not depend on ZeRO sharding or on
// resuming.
//
// k8Bit: block-wise dynamic quantization (Dettmers, Lewis, Shleifer, Zettlemoyer: "8-bit Optimizers
// via Block-wise Quantization", arXiv 2110.02861): x = code[q] * largest magnitude of its block,
// rounded to the nearest code. Codes are denser near zero: the decades 10^-6 .. 10^0 have 1, 2, 4
// .. 64 codes (signed; unsigned 2, 4 .. 128), each in the middle of an equal section of [0.1, 1]
// times the decade; together with 0 and 1, 256 codes. Blocks have 256 elements, as in bitsandbytes'
// optimizers and torchao; in the paper 2048. Moments of weights with fewer than kSmallest elements
// are stored in full precision, as in bitsandbytes. Blocks start at the beginning of a shard: with
// another number of ranks, blocks and therefore the exact bits differ. Embeddings can be kept in
// full precision as well (AdamWOptions).
//
// Implemented with LibTorch operators, the same on CPU and GPU. Memory: about 60 bytes per element
// of the piece being updated (kBf16: Philox in 64-bit integers).

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/text/fields.h"

namespace moonring::trainer {

enum class MomentDtype { kFull, kBf16, k8Bit };
constexpr auto WordsOf(MomentDtype) {
  return std::to_array<base::Word<MomentDtype>>(
      {{"fp32", MomentDtype::kFull}, {"bf16", MomentDtype::kBf16}, {"8bit", MomentDtype::k8Bit}});
}

struct Moment {
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kSmallest = 4096;

  MomentDtype dtype = MomentDtype::kFull;
  bool is_signed = true;
  // kFull: the weight's shape, otherwise [numel]; undefined before the first step
  at::Tensor numbers;
  at::Tensor scale;  // k8Bit: fp32 [ceil(numel / kBlock)]
  at::Tensor codes;  // k8Bit: DynamicCodes on the device of `numbers`

  int64_t bytes() const;
};

// The dtype in which elements are stored. `full`: the dtype that is used for kFull.
at::ScalarType StoredDtype(MomentDtype dtype, at::ScalarType full);
// Scales for a moment of `numel` elements that are all zero.
at::Tensor NewScale(int64_t numel, at::Device device);

// Elements [begin, begin + count) for an update: a view for kFull, otherwise decoded to fp32.
// `begin` must be a multiple of the block size.
at::Tensor ReadMoment(const Moment& moment, int64_t begin, int64_t count);

// Stores updated elements. `key`: key of this step and weight (kernels/random/counter_random.h);
// `place`: index of the first element in the whole weight.
void WriteMoment(const Moment& moment, int64_t begin, const at::Tensor& values, uint64_t key,
                 int64_t place);

// Decodes a stored moment to fp32. `scale`: the scales of 8-bit codes; undefined for other formats.
at::Tensor DecodedMoment(const at::Tensor& numbers, const at::Tensor& scale, bool is_signed);

// The code table: fp32 [256], ascending, on the CPU.
at::Tensor DynamicCodes(bool is_signed);

namespace internal {

// Stochastic rounding to bf16, which is unbiased.
at::Tensor RoundedOnAverage(const at::Tensor& values, uint64_t key, int64_t place);

}  // namespace internal

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_MOMENT_H_
