#ifndef MOONRING_KERNELS_PACKED_EIGHT_BIT_H_
#define MOONRING_KERNELS_PACKED_EIGHT_BIT_H_

// Eight-bit quantization with one scale per row, as in LLM.int8() (Dettmers et al. 2022, arXiv
// 2208.07339), byte for byte equal to the tensors CB and SCB of bitsandbytes 0.50.2. A row is a
// slice along the last dim:
//
//   x  = the weight in fp16, whatever its dtype, as in bitsandbytes; a number that is infinite or
//        NaN in fp16 is INVALID_ARGUMENT
//   a  = max |x| of the row                           fp32
//   q  = round(x (127 (1 / a))), halves to even           int8; 0 if a is 0
//   x' = q (a (1 / 127))                              the unpacked number: fp32, rounded to out's
//                                                     dtype
//
// The matmul with x' is computed in the same dtype as with an unquantized weight. Inputs are not
// quantized, so outliers among them need no special treatment.
//
//   parts   q: int8 [n], a: fp32 [rows]      n: the weight's number of elements

#include <string>

#include "absl/status/statusor.h"
#include "kernels/packed/weight_code.h"

namespace moonring::kernels {

class EightBitCode final : public WeightCode {
 public:
  std::string name() const override { return "int8"; }
  absl::StatusOr<PackedWeight> Pack(const at::Tensor& weight) const override;
  void Unpack(const PackedWeight& packed, at::Tensor& out) const override;
  int64_t PackedBytes(at::IntArrayRef shape) const override;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PACKED_EIGHT_BIT_H_
