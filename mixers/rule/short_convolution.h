#ifndef MOONRING_MIXERS_RULE_SHORT_CONVOLUTION_H_
#define MOONRING_MIXERS_RULE_SHORT_CONVOLUTION_H_

// A causal depthwise convolution with a few taps over a packed stream of documents, as used before
// q, k and v in linear attention, and in place of attention in LFM2's blocks.
//
//   z_tc = bias_c + sum_{s=0}^{W-1} weight_{c, W-1-s} x_{t-s, c},   y = z or SiLU(z) = z sigmoid(z)
//
// Before a document's first token in this call, x_{t-s} is zero or a row of the halo: preceding
// rows of the document, which another rank has or an earlier decoding call computed. The weight is
// that of Conv1d [C, 1, W]; its last tap multiplies the token itself.
//
// Shapes: x, y [T, C]; weight [C, W]; bias [C]; halo [R, C], at most W - 1 rows for each document,
// concatenated in the order of documents. Arithmetic in fp32 (fp64 for fp64); y has the dtype of x.
// Cost: 2 T C W flops and W passes over x in the forward; twice that in the backward. x, weight,
// bias and halo are saved; z is recomputed.
//
// Throws (TORCH_CHECK) where shapes, devices or dtypes do not match.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

struct ShortConvolutionInputs {
  at::Tensor x_TC, weight_CW;
  at::Tensor bias_C;   // may be undefined
  at::Tensor halo_RC;  // undefined: no document has a halo
};

struct ShortConvolutionOptions {
  bool silu = false;
  // The number of halo rows of each document; empty: none has any.
  std::vector<int64_t> halo_lengths;
};

// Differentiable in all inputs. The caller must send the halo's gradient to the rank that has these
// rows.
at::Tensor ShortConvolution(const ShortConvolutionInputs& inputs,
                            const std::vector<int64_t>& lengths,
                            const ShortConvolutionOptions& options = {});

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_SHORT_CONVOLUTION_H_
