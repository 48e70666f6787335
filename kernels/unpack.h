#ifndef MOONRING_KERNELS_UNPACK_H_
#define MOONRING_KERNELS_UNPACK_H_

// Packed weights, unpacked in one pass (operators moonring::unpack_four_bits_ and
// moonring::unpack_eight_bits_): what kernels/packed/four_bit.h and eight_bit.h have, bit by bit,
// with the parts that those name. `out` in fp32, fp64, bf16 or fp16, without gaps and of any shape;
// numbers are made in fp32 and rounded once.
//
// Moved: the parts' bytes and out's, once each.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kUnpackFourBits[] = "moonring::unpack_four_bits_";
inline constexpr char kUnpackEightBits[] = "moonring::unpack_eight_bits_";

// `parts`: codes and scales, or codes, the scales' codes, their scales and their mean; `steps` of
// the 16 codes, `scale_steps` of the 256 that scales have.
void UnpackFourBits(at::Tensor out, const std::vector<at::Tensor>& parts, at::ArrayRef<float> steps,
                    at::ArrayRef<float> scale_steps);

// `scales_R` of out's rows, whose width follows.
void UnpackEightBits(at::Tensor out, const at::Tensor& codes, const at::Tensor& scales_R);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_UNPACK_H_
