#ifndef MOONRING_ATTENTION_KERNELS_STRIP_SCORES_H_
#define MOONRING_ATTENTION_KERNELS_STRIP_SCORES_H_

// Attention with materialized scores in 16 bits (strip_varlen_attention.h) has steps between its
// matrix products: softmax probabilities from query-key products, and the gradients of these
// products. On a GPU the kernel score_rows (kernels) computes them in place; elsewhere LibTorch's
// operators compute them, with the same equations and rounding.
//
// Shapes, for B tiles of M queries and N keys and H heads: x = q k^T and y = dout v^T [B, H, M, N]
// in fp32; the softmax weights p and the scores' gradients ds [B, H, M, N] in 16 bits; for each
// query sum (of p over the keys), lse (log-sum-exp of the scores) and delta = dout . out [B, H, M]
// in fp32; seen int64 [B, 4]: which keys the queries attend to (kernels/score_rows.h). Cost: fused,
// 6 bytes per score in the forward and 12 in the backward; with operators, about ten of them each
// way, and three times the scores' memory.

#include <ATen/core/Tensor.h>

#include "attention/kernels/block_attention.h"

namespace moonring::attention {

struct StripSoftmax {
  at::Tensor p_BHMN;              // e^(z - max z) for the scores z: out is p v / sum
  at::Tensor sum_BHM1, lse_BHM1;  // fp32
};

// Softmax of the masked scores from x = q k^T, which is overwritten. `type`: the dtype of p.
StripSoftmax SoftmaxOfStrip(const at::Tensor& x_BHMN, const at::Tensor& seen_B4,
                            const ScoreFunction& score, at::ScalarType type);

struct StripGradients {
  at::Tensor p_BHMN, ds_BHMN;
};

// Gradients from x = q k^T and y = dout v^T, which are overwritten.
StripGradients GradientsOfStrip(const at::Tensor& x_BHMN, const at::Tensor& y_BHMN,
                                const at::Tensor& lse_BHM1, const at::Tensor& delta_BHM1,
                                const at::Tensor& seen_B4, const ScoreFunction& score,
                                at::ScalarType type);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_STRIP_SCORES_H_
