#ifndef MOONRING_MIXERS_CACHE_MIXING_CACHE_H_
#define MOONRING_MIXERS_CACHE_MIXING_CACHE_H_

// PlannedMixing (planned_mixing.h) for decoding one growing document on one rank. It stores the
// states of layers that are not softmax attention, as a key-value cache stores keys and values of
// attention layers. The rows of a call follow the rows of the previous calls. Results do not depend
// on how the document is divided into calls, up to rounding.
//
// Stored for each layer (DeltaCall::layer, ConvolutionCall::layer): the last W - 1 input rows of
// the convolution (W taps, C channels) and the state of the delta rule (H value heads, d_v x d_k
// each), (W - 1) C + H d_v d_k numbers for any length. A state cannot be truncated to an earlier
// token, but Restore() returns to a state that Save() returned. No autograd graph is recorded. A
// call with one token computes one step of the recurrence (delta_recurrence.h), other calls use
// chunks (delta_rule.h).
//
// Throws (TORCH_CHECK) where a layer's calls are inconsistent with earlier ones.

#include <cstdint>
#include <map>

#include <ATen/core/Tensor.h>

#include "mixers/over_ranks/planned_mixing.h"

namespace moonring::mixers {

class MixingCache : public PlannedMixing {
 public:
  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override;

  struct Layer {
    int64_t tokens = 0;
    at::Tensor last_RC;     // last input rows of the convolution; undefined: none
    at::Tensor state_1HVK;  // undefined: zeros
  };
  // A copy of the map shares its tensors, which are never written in place.
  using Kept = std::map<int64_t, Layer>;

  // The number of tokens so far, the same for all layers. Throws between the layers of a forward.
  int64_t tokens() const;
  Kept Save() const { return layers_; }
  void Restore(Kept kept) { layers_ = std::move(kept); }
  void Forget() { layers_.clear(); }
  int64_t bytes() const;

 private:
  at::Tensor Convolved(const ConvolutionCall& call, Layer& layer) const;

  std::map<int64_t, Layer> layers_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_CACHE_MIXING_CACHE_H_
