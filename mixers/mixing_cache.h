#ifndef MOONRING_MIXERS_MIXING_CACHE_H_
#define MOONRING_MIXERS_MIXING_CACHE_H_

// PlannedMixing of one document that grows, on one rank: what a sampler keeps beside the keys and
// values of its attention layers. A call's rows are those that come after the ones before it; a
// document in pieces of any lengths gives what it gives in one piece, up to rounding.
//
// Kept for each layer (DeltaCall::layer, ConvolutionCall::layer): the last W - 1 rows before the
// convolution and the rule's state, (W - 1) C + H d_v d_k numbers, whatever the length. A state
// cannot be cut back to an earlier token; Save() and Restore() go back to where one was saved.
// Records no graph. A call of one token takes the recurrence's step, others the chunked rule.
//
// Throws (TORCH_CHECK) where a layer's calls do not fit those before.

#include <cstdint>
#include <map>

#include <ATen/core/Tensor.h>

#include "mixers/planned_mixing.h"

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
  // Handles: what they hold is never written again.
  using Kept = std::map<int64_t, Layer>;

  // Tokens so far; of all layers the same. Throws between the layers of a forward.
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

#endif  // MOONRING_MIXERS_MIXING_CACHE_H_
