#ifndef MOONRING_MIXERS_SHORT_CONVOLUTION_H_
#define MOONRING_MIXERS_SHORT_CONVOLUTION_H_

// A causal depthwise convolution of a few taps over a packed stream of documents, as linear
// attentions have it before q, k and v, and LFM2's blocks in place of attention.
//
//   z_tc = bias_c + sum_{s=0}^{W-1} weight_{c, W-1-s} x_{t-s, c},   y = z or SiLU(z) = z sigmoid(z)
//
// x_{t-s} is zero before its document's first token, or a row of the halo: rows that came just
// before the document's first one here, because another rank has them or a sampler made them
// earlier. The weight is as Conv1d [C, 1, W] has it, its last tap on the token itself.
//
// Shapes: x, y [T, C]; weight [C, W]; bias [C]; halo [R, C], at most W - 1 rows for each document,
// one document's after another's. Arithmetic in fp32 (fp64 for fp64); y has the dtype of x.
// Cost: 2 T C W flop and W passes over x, forward; twice that backward. x, weight, bias and halo
// are kept; z is made again.
//
// Throws (TORCH_CHECK) where shapes, devices or dtypes do not fit.

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

struct ShortConvolutionInputs {
  at::Tensor x_TC, weight_CW;
  at::Tensor bias_C;   // may be undefined
  at::Tensor halo_RC;  // undefined: no document has one
};

struct ShortConvolutionOptions {
  bool silu = false;
  // How many rows of the halo each document has; empty: none has any.
  std::vector<int64_t> halo_lengths;
};

// All inputs have gradients, the halo too: it goes to whoever has those rows.
at::Tensor ShortConvolution(const ShortConvolutionInputs& inputs,
                            const std::vector<int64_t>& lengths,
                            const ShortConvolutionOptions& options = {});

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_SHORT_CONVOLUTION_H_
