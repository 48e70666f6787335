#ifndef MOONRING_KERNELS_SHORT_CONVOLUTION_H_
#define MOONRING_KERNELS_SHORT_CONVOLUTION_H_

// A causal depthwise convolution with a few taps over packed documents, optionally followed by SiLU
// (mixers/rule/short_convolution.h has the equation), in one pass (operators
// moonring::short_convolution and moonring::short_convolution_backward):
//
//   z_tc = bias_c + sum_{s=0}^{W-1} weight_{c, W-1-s} x_{t-s, c},   y = z or z sigmoid(z)
//   dz = dy or dy y'(z);  dx_t = sum_s weight_{W-1-s} dz_{t+s}
//   dweight_{W-1-s} = sum_t dz_t x_{t-s}
//
// An x_{t-s} before the first token of t's document is a row of the halo, or zero; the halo has the
// rows that precede a document's tokens here (on another rank, or from an earlier decoding call). A
// dz_{t+s} after the document's last token is omitted. documents int64 [D + 1, 2]: for each
// document its first token and its first halo row; then T and R.
//
// T tokens of C channels, W taps, D documents, R halo rows. x, y, dy [T, C] and halo [R, C] have
// the same dtype: fp32, bf16, fp16 or fp64. weight [C, W], bias [C], arithmetic and sums are in
// fp32 (fp64 for fp64). W is 2, 3 or 4. Rows of x may have any stride. Memory traffic: the forward
// reads x and writes y; the backward reads x and dy, and writes dx and up to 256 x (W + 1) x C
// partial sums. Neighbouring rows come from the cache. Sums have a fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kShortConvolution[] = "moonring::short_convolution";

struct ConvolutionTensors {
  at::Tensor x_TC, weight_CW;
  at::Tensor bias_C, halo_RC;  // may be undefined
  at::Tensor documents;
};

// Whether the kernel supports this number of taps.
inline bool ShortConvolutionTakes(int64_t taps) { return taps >= 2 && taps <= 4; }

at::Tensor ShortConvolution(const ConvolutionTensors& tensors, bool silu);

struct ConvolutionGradients {
  at::Tensor x_TC, weight_CW;
  at::Tensor bias_C, halo_RC;  // undefined if the input is
};

ConvolutionGradients ShortConvolutionBackward(const at::Tensor& dy_TC,
                                              const ConvolutionTensors& tensors, bool silu);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_SHORT_CONVOLUTION_H_
