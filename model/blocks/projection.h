#ifndef MOONRING_MODEL_BLOCKS_PROJECTION_H_
#define MOONRING_MODEL_BLOCKS_PROJECTION_H_

// A linear map of a block: a matrix, optionally with a low-rank adapter (LoRA: Hu et al. 2021;
// DoRA: Liu et al. 2024) or with an orthogonal matrix that rotates its input (OFT). With s the
// scale, and x' = x or, with dropout, x with some features zeroed and the others divided by 1 -
// rate:
//
//   plain            y = x W^T + b
//   LoRA             y = x W^T + b + s (x' A^T) B^T
//   DoRA             y = b + g z,  z = x W^T + s (x A^T) B^T,  g = m / n,  n_o = || W_o + s (B A)_o
//                    ||_2, a constant in the backward
//   DoRA, dropout    y = x W^T + b + g z' - x' W^T,  z' = x' W^T + s (x' A^T) B^T            (as
//                    PEFT 0.18 defines it)
//   OFT              y = x R W^T + b,  R block diagonal (block_rotation.h)
//
// Shapes: x_TI, W_OI, b_O, A_RI, B_OR, magnitude m_O. x, W, b, A, B have one dtype; m is in fp32
// (or fp64).
//
// Which features of a token are dropped depends only on (key, global index of the token), not on
// rank, order or run (kernels/random/counter_random.h). The backward recomputes the mask instead of
// keeping it.
//
// In an adapted map W and b must be frozen, and the backward computes no [O, I] matrix. In addition
// to y and dx (2 T I O flops each, as in the plain map) LoRA costs 2 T R (I + O) flops in the
// forward and 4 T R (I + O) in the backward; dW would cost 2 T I O. The backward keeps x and x' A^T
// [T, R], and with DoRA also z [T, O]. Computing n costs 2 R I O flops per call, and allocates no
// second [O, I] matrix. OFT keeps x for the backward; block_rotation.h states its cost.

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "model/blocks/block_rotation.h"
#include "model/blocks/layers.h"

namespace moonring::model {

struct Dropout {
  double rate = 0.0;      // in [0, 1); 0: none
  uint64_t key = 0;       // random key of this map and step (kernels::CounterKey)
  at::Tensor identity_T;  // int64: global indices of the rows' tokens; undefined: no dropout
};

struct LowRank {
  at::Tensor a_RI, b_OR;
  at::Tensor magnitude_O;  // undefined: LoRA; defined: DoRA
  double scale = 1.0;
  Dropout dropout;
};

struct Projection {
  at::Tensor weight_OI;
  at::Tensor bias_O;  // may be undefined
  std::optional<LowRank> low_rank;
  WeightSum sum = nullptr;  // for W's gradient (layers.h); W is frozen if the map is adapted
  std::optional<BlockRotation> rotation;  // OFT; then low_rank must be absent

  bool adapted() const { return low_rank.has_value() || rotation.has_value(); }
};

// Returns y_TO. Differentiable in x, A, B, m and the skew entries of R; in W and b only without an
// adapter.
at::Tensor Project(const Projection& projection, const at::Tensor& x_TI);

// The second half of a gated MLP: Project(act(gate) * up). The backward recomputes the product
// instead of keeping it. `up` undefined: Project(act(gate)).
at::Tensor ProjectGated(const Projection& projection, const at::Tensor& gate_TI,
                        const at::Tensor& up_TI, Activation activation);

// A gated MLP. An MLP without a gate has an undefined `up`.
struct GatedMaps {
  Projection gate, up, down;
};
// Returns Wdown (act(Wgate x) * Wup x); without a gate, Wdown act(Wgate x).
at::Tensor RunMlp(const GatedMaps& maps, const at::Tensor& x_TD, Activation activation);

// Returns n_O, the norms of the rows of W + s B A (for DoRA), in fp32 (fp64 for fp64). Rows of W
// are processed a tile at a time.
at::Tensor AdaptedRowNorms(const at::Tensor& weight_OI, const at::Tensor& a_RI,
                           const at::Tensor& b_OR, double scale);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_PROJECTION_H_
