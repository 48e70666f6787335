#ifndef MOONRING_MIXERS_OVER_RANKS_PLANNED_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_PLANNED_MIXING_H_

// PlannedMixing: the interface for layers that mix tokens without softmax attention (linear
// attention and short convolutions); the counterpart of attention::PlannedAttention. A layer of the
// model passes this rank's rows and gets their outputs. It need not know how documents are
// distributed over ranks, or what is communicated.
//
// Plans are made for a layout and shared by all layers. Calls are collective: every rank of the
// group, even one without tokens, makes the same calls in the same order.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "mixers/rule/delta_inputs.h"

namespace moonring::mixers {

// A gated delta rule (delta_inputs.h) with the short convolution before it (short_convolution.h,
// followed by SiLU):
//
//   [q | k | v] = convolution(x);   out = rule(q, k, v, g, beta) + skip v
struct DeltaCall {
  at::Tensor x_TC;     // [T_local, C], C = 2 Hk d_k + H d_v: channels of q, then k (Hk heads of d_k
                       // each), then v (H heads of d_v), by heads
  at::Tensor taps_CW;  // undefined: there is no convolution, and x is [q | k | v]
  at::Tensor bias_C;   // of the convolution; may be undefined
  at::Tensor g;        // logarithm of the decay, fp32 or fp64: [T_local, H] or [T_local, H, d_k]
  at::Tensor beta_TH;  // fp32 or fp64
  at::Tensor skip_H;   // dtype as beta; undefined: no skip connection of v
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  DeltaOptions options;
  int64_t layer = 0;  // index of the layer, under which states are stored between calls in decoding
};

// A short convolution alone.
struct ConvolutionCall {
  at::Tensor x_TC, taps_CW;
  at::Tensor bias_C;  // may be undefined
  bool silu = false;
  int64_t layer = 0;
};

class PlannedMixing {
 public:
  virtual ~PlannedMixing() = default;

  // Returns [T_local, H, d_v] in the dtype of x, differentiable in all tensors. Autograd's graph
  // keeps alive what it needs, so the plan may be destroyed before the backward. Throws on invalid
  // inputs, and where a peer fails.
  virtual at::Tensor Delta(const DeltaCall& call) = 0;

  // Returns [T_local, C] in the dtype of x. In all other respects it is like Delta.
  virtual at::Tensor Convolve(const ConvolutionCall& call) = 0;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_PLANNED_MIXING_H_
