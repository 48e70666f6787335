#ifndef MOONRING_TRAINER_MOMENT_H_
#define MOONRING_TRAINER_MOMENT_H_

// One of the numbers that an optimizer keeps beside each weight, in fp32 or in fewer bytes. It is
// worked on in fp32, piece by piece, and rounded as it is put back.
//
//   kFull   the gradient's dtype (fp32; fp64 for fp64)      4 bytes a number
//   kBf16   bf16                                            2
//   k8Bit   a code of 8 bits, and the largest magnitude
//           of each kBlock numbers in fp32                  1 + 1/64
//
// kBf16: a mean is rounded to nearest: a step changes it by (1 - beta1) of the gradient, a tenth,
// and half a unit of bf16 is 2^-9 of it. A mean of squares moves by 1 - beta2 = 1/1000 of itself,
// less than that half: to nearest it would never fall. So it is rounded up with the probability
// that makes it right on average. The random numbers are counter-based (kernels/random), keyed by
// the step, the weight's name and the number's place in the whole weight: the same whatever ZeRO
// shards, and after a resume.
//
// k8Bit: block-wise dynamic quantisation (Dettmers, Lewis, Shleifer, Zettlemoyer: "8-bit Optimizers
// via Block-wise Quantization", arXiv 2110.02861): x = code[q] * largest of its block, rounded to
// the nearest code. The codes are denser towards zero: of decade 10^-6 .. 10^0 there are 1, 2, 4 ..
// 64 (with a sign; without one 2, 4 .. 128), each in the middle of an equal part of [0.1, 1] times
// the decade; with 0 and 1, 256. Blocks of 256 numbers, as bitsandbytes' optimizers and torchao's
// have since; the paper's are of 2048. Weights of fewer than kSmallest numbers are held in full, as
// in bitsandbytes. Blocks begin with a shard: over another number of ranks they are others, and the
// numbers are not the same bits. Embeddings may be held in full too (AdamWOptions).
//
// Composed of LibTorch's operators, the same on a CPU and a GPU. Memory: some 60 bytes a number of
// the piece in work (kBf16: Philox in 64-bit integers).

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::trainer {

enum class MomentDtype { kFull, kBf16, k8Bit };

struct Moment {
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kSmallest = 4096;

  MomentDtype dtype = MomentDtype::kFull;
  bool is_signed = true;
  at::Tensor numbers;  // kFull: of the weight's shape, else [numel]; undefined until it is made
  at::Tensor scale;    // k8Bit: fp32 [ceil(numel / kBlock)]
  at::Tensor codes;    // k8Bit: DynamicCodes on the numbers' device

  int64_t bytes() const;
};

// How the numbers are stored; `full`: kFull's.
at::ScalarType StoredDtype(MomentDtype dtype, at::ScalarType full);
// Scales of a moment of `numel` numbers, of zeros.
at::Tensor NewScale(int64_t numel, at::Device device);

// Numbers [begin, begin + count) to work on: themselves, or in fp32. `begin` is a whole number of
// blocks.
at::Tensor ReadMoment(const Moment& moment, int64_t begin, int64_t count);

// Puts them back. `key`: of this step and weight (kernels/random/counter_random.h); `place`: of the
// first one in the whole weight.
void WriteMoment(const Moment& moment, int64_t begin, const at::Tensor& values, uint64_t key,
                 int64_t place);

// All of a moment in fp32, out of what was stored. `scale`: of 8 bits, else undefined.
at::Tensor DecodedMoment(const at::Tensor& numbers, const at::Tensor& scale, bool is_signed);

// fp32 [256], ascending, on the CPU.
at::Tensor DynamicCodes(bool is_signed);

namespace internal {

// bf16, unbiased.
at::Tensor RoundedOnAverage(const at::Tensor& values, uint64_t key, int64_t place);

}  // namespace internal

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_MOMENT_H_
