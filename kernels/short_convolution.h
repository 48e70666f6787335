#ifndef MOONRING_KERNELS_SHORT_CONVOLUTION_H_
#define MOONRING_KERNELS_SHORT_CONVOLUTION_H_

// A causal depthwise convolution of a few taps over packed documents, with SiLU where it is wanted
// (mixers/short_convolution.h has the equation), in one pass (operators moonring::short_convolution
// and moonring::short_convolution_backward):
//
//   z_tc = bias_c + sum_{s=0}^{W-1} weight_{c, W-1-s} x_{t-s, c},   y = z or z sigmoid(z)
//   dz = dy or dy y'(z);  dx_t = sum_s weight_{W-1-s} dz_{t+s};  dweight_{W-1-s} = sum_t dz_t
//   x_{t-s}
//
// x_{t-s} before its document's first token is a row of the halo, or zero; dz_{t+s} beyond its last
// one is none. documents int64 [D + 1, 2]: of each document its first token and the first of its
// rows of the halo; then T and R. A document's rows of the halo are those just before it.
//
// x, y, dy [T, C], halo [R, C] in fp32, bf16, fp16 or fp64, all the same; weight [C, W], bias [C],
// arithmetic and sums in fp32 (fp64 for fp64). W is 2, 3 or 4. Rows of x may be any distance apart.
// Bytes: forward reads x and writes y; backward reads x and dy and writes dx, and up to 256 x
// (W + 1) x C numbers of partial sums beside. Neighbouring rows come from the cache. Sums have a
// fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kShortConvolution[] = "moonring::short_convolution";

struct ConvolutionTensors {
  at::Tensor x_TC, weight_CW;
  at::Tensor bias_C, halo_RC;  // may be undefined
  at::Tensor documents;
};

// Whether the kernel has so many taps.
inline bool ShortConvolutionTakes(int64_t taps) { return taps >= 2 && taps <= 4; }

at::Tensor ShortConvolution(const ConvolutionTensors& tensors, bool silu);

struct ConvolutionGradients {
  at::Tensor x_TC, weight_CW;
  at::Tensor bias_C, halo_RC;  // undefined where there is none
};

ConvolutionGradients ShortConvolutionBackward(const at::Tensor& dy_TC,
                                              const ConvolutionTensors& tensors, bool silu);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_SHORT_CONVOLUTION_H_
