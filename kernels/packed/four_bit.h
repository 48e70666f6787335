#ifndef MOONRING_KERNELS_PACKED_FOUR_BIT_H_
#define MOONRING_KERNELS_PACKED_FOUR_BIT_H_

// Four-bit quantization (Dettmers et al. 2023, QLoRA, arXiv 2305.14314), byte for byte as
// bitsandbytes 0.50.2 does on a CPU. NF4 has 16 steps that are quantiles of the normal
// distribution; FP4 has a sign, two exponent bits and one mantissa bit. The flattened weight is cut
// into blocks of 64 numbers; the last block may be short. For block b with numbers x:
//
//   a_b = max |x|                                     fp32; for a short block at least 1e-38
//   y   = x (1 / max(a_b, 1e-38)), within [-1, 1]; for a short block x / a_b
//   c   = the step nearest to y; ties to the lower one
//   x'  = step[c] a_b                                 the unpacked number: rounded to fp32, then to
//                                                     out's dtype
//
// Double quantization packs the scales too, in blocks of 256, by the dynamic 8-bit code (arXiv
// 2110.02861). Let m be the mean of all a_b of the weight (as LibTorch computes it in one thread,
// because its last bits depend on the number of threads), and A the largest |a_b - m| of a block:
//
//   d   = the code at (a_b - m) / A, looked up on a grid of 65536 points over [-1, 1]; code 0 if A
//         is 0
//   a_b' = dynamic[d] A + m                           each rounded to fp32, and used for a_b
//
//   parts   of a weight of n numbers: codes: uint8 [ceil(n / 2)], the first of two in the high bits
//           plain: a: fp32 [B]           B = ceil(n / 64)
//           double: d: uint8 [B], A: fp32 [ceil(B / 256)], m: fp32 [1]
//   size    4.5 bits per number; 4.127 with double quantization
//
// In two cases bitsandbytes' result depends on the CPU and the vector width; here it does not: bf16
// numbers below 2^-126 are kept (its AVX-512 code makes them 0), and FP4's code 8 is +0 (elsewhere
// -0).

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
