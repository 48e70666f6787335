#ifndef MOONRING_MIXERS_CACHE_MIXING_CACHE_H_
#define MOONRING_MIXERS_CACHE_MIXING_CACHE_H_

// PlannedMixing of one growing document on one rank: the states for decoding in layers that are not
// softmax attention, as the key-value cache is for attention layers. A call's rows follow those of
// the previous calls. A document in pieces of any lengths has the same result as in one piece, up
// to rounding.
//
// Stored for each layer (DeltaCall::layer, ConvolutionCall::layer): the last W - 1 rows before the
// convolution and the rule's state, (W - 1) C + H d_v d_k numbers for any length. A state cannot be
// truncated to an earlier token; Save() and Restore() return to a saved state. Records no autograd
// graph. A call with one token uses the recurrence's step, others the chunked rule.
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
    at::Tensor last_RC;     // rows before the convolution; undefined: none
    at::Tensor state_1HVK;  // undefined: zeros
  };
  // Shares the tensors, which are never written in place.
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
