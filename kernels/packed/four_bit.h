#ifndef MOONRING_KERNELS_PACKED_FOUR_BIT_H_
#define MOONRING_KERNELS_PACKED_FOUR_BIT_H_

// Codes of four bits (Dettmers et al. 2023, QLoRA, arXiv 2305.14314), byte for byte what
// bitsandbytes 0.50.2 makes on a CPU: NF4, whose 16 steps are quantiles of the normal distribution,
// and FP4, a sign, two bits of exponent and one more. The weight's numbers, row after row whatever
// its shape, are cut into blocks of 64; the last may be short. Block b of numbers x:
//
//   a_b = max |x|                                     fp32; of a short block at least 1e-38
//   y   = x (1 / max(a_b, 1e-38)), of a short block x / a_b, within [-1, 1]
//   c   = the step nearest to y; halfway the lower
//   x'  = step[c] a_b                                 what is unpacked: one rounding to fp32, one
//                                                     more to out's dtype
//
// Double quantisation packs the scales too, in blocks of 256, by the dynamic code of 8 bits (arXiv
// 2110.02861): with m the mean of all a_b of the weight (LibTorch's in one thread: in several its
// last bits differ) and A the largest |a_b - m| of a block,
//
//   d   = the code at (a_b - m) / A, looked up on a grid of 65536 places over [-1, 1]; where A is 0
//         code 0
//   a_b' = dynamic[d] A + m                           each rounded to fp32, and used for a_b
//
//   parts   codes: uint8 [ceil(n / 2)], the first of two in the high bits
//           plain: a: fp32 [B]           B = ceil(n / 64)
//           double: d: uint8 [B], A: fp32 [ceil(B / 256)], m: fp32 [1]
//   bytes   4.5 bits a number; 4.127 doubly quantised
//
// Where bitsandbytes has two answers, by the CPU and the width, this has one: numbers in bf16 below
// 2^-126 stay (its AVX-512 makes them 0), and FP4's code 8 is +0 (elsewhere -0).

#include <string>

#include "absl/status/statusor.h"
#include "kernels/packed/weight_code.h"

namespace moonring::kernels {

enum class FourBits { kNf4, kFp4 };

class FourBitCode final : public WeightCode {
 public:
  FourBitCode(FourBits bits, bool double_quantised)
      : bits_(bits), double_quantised_(double_quantised) {}

  std::string name() const override;  // "nf4", "fp4", "nf4 double", "fp4 double"
  absl::StatusOr<PackedWeight> Pack(const at::Tensor& weight) const override;
  void Unpack(const PackedWeight& packed, at::Tensor& out) const override;
  int64_t PackedBytes(at::IntArrayRef shape) const override;

 private:
  FourBits bits_;
  bool double_quantised_;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_FOUR_BIT_H_
