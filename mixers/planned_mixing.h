#ifndef MOONRING_MIXERS_PLANNED_MIXING_H_
#define MOONRING_MIXERS_PLANNED_MIXING_H_

// How the tokens of a micro-batch see each other in the layers that are not softmax attention: what
// attention::PlannedAttention is to the others. A block gives its local rows and gets theirs back;
// how documents lie over ranks, and what travels for it, is below.
//
// Plans are made for a layout; all layers share one. Calls are collective: every rank of the group
// makes the same ones in the same order, a rank without tokens too.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "mixers/delta_inputs.h"

namespace moonring::mixers {

// A gated delta rule (delta_inputs.h) with the short convolution before it
// (short_convolution.h, SiLU after it):
//
//   [q | k | v] = convolution(x);   out = rule(q, k, v, g, beta) + skip v
struct DeltaCall {
  at::Tensor x_TC;     // [T_local, C], C = 2 Hk d_k + H d_v: channels of q, of k, of v, by heads
  at::Tensor taps_CW;  // undefined: there is no convolution, x is q, k, v
  at::Tensor bias_C;   // of the convolution; may be undefined
  at::Tensor g;        // the decay's logarithm, fp32 or fp64: [T_local, H] or [T_local, H, d_k]
  at::Tensor beta_TH;  // fp32 or fp64
  at::Tensor skip_H;   // as beta; undefined: none of v goes by the rule
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  DeltaOptions options;
  int64_t layer = 0;  // whose state it is, where one is kept from call to call
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

  // [T_local, H, d_v] in the dtype of x, differentiable in all tensors; autograd's graph shares
  // what it needs, so the plan need not live until the backward. Throws.
  virtual at::Tensor Delta(const DeltaCall& call) = 0;

  // [T_local, C], as Delta.
  virtual at::Tensor Convolve(const ConvolutionCall& call) = 0;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_PLANNED_MIXING_H_
