#ifndef MOONRING_KERNELS_UNPACK_H_
#define MOONRING_KERNELS_UNPACK_H_

// Unpacks packed (quantized) weights in one pass (operators moonring::unpack_four_bits_ and
// moonring::unpack_eight_bits_), bit for bit as defined in kernels/packed/four_bit.h and
// eight_bit.h, which also describe the packed tensors. `out` is fp32, fp64, bf16 or fp16,
// contiguous, of any shape; numbers are computed in fp32 and rounded once.
//
// Memory traffic: the bytes of the packed tensors and of out, once each.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kUnpackFourBits[] = "moonring::unpack_four_bits_";
inline constexpr char kUnpackEightBits[] = "moonring::unpack_eight_bits_";

// `parts`: codes and scales; or, with double quantization, codes, the scales' codes, their scales
// and their mean. `steps`: the values of the 16 codes; `scale_steps`: the values of the scales' 256
// codes.
void UnpackFourBits(at::Tensor out, const std::vector<at::Tensor>& parts, at::ArrayRef<float> steps,
                    at::ArrayRef<float> scale_steps);

// `scales_R`: one scale per row of out; the number of scales determines the row width.
void UnpackEightBits(at::Tensor out, const at::Tensor& codes, const at::Tensor& scales_R);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_UNPACK_H_
