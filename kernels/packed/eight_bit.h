#ifndef MOONRING_KERNELS_PACKED_EIGHT_BIT_H_
#define MOONRING_KERNELS_PACKED_EIGHT_BIT_H_

// Eight bits a number and one scale a row, as LLM.int8() keeps weights (Dettmers et al. 2022, arXiv
// 2208.07339), byte for byte bitsandbytes 0.50.2's CB and SCB. A row is the last dim's:
//
//   x  = the weight in fp16, whatever its dtype: so bitsandbytes has it, and what fp16 has no place
//        for is INVALID_ARGUMENT
//   a  = max |x| of the row                           fp32
//   q  = round(x (127 (1 / a))), halves to even           int8; 0 where a is 0
//   x' = q (a (1 / 127))                              what is unpacked: fp32, rounded to out's
//
// The product with x' is made in the dtype that it would be made in anyway: inputs are not
// quantised, so that none of them is an outlier.
//
//   parts   q: int8 [n], a: fp32 [rows]

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
