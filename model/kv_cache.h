#ifndef MOONRING_MODEL_KV_CACHE_H_
#define MOONRING_MODEL_KV_CACHE_H_

// Attention of one growing document on one rank, for decoding: it keeps the keys and values of
// every layer.
//
// A forward of the model calls Forward once a layer, in order; the rows given follow the tokens
// already held. Memory: layers * tokens * kv_heads * (D + Dv) numbers, in the dtype of k and v; at
// most twice that, as buffers double. Not differentiable. With a softcap, a sink or values of
// another size than keys a forward runs attention's own tiles (attention/tile_plan.h) over the keys
// held, in AccumulateType; else LibTorch's operator.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/attention.h"

namespace moonring::model {

class KvCache : public attention::PlannedAttention {
 public:
  explicit KvCache(int64_t layers) : layers_(layers) {}

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const attention::ScoreRule& rule, attention::KeptAttention* kept) override;

  // Tokens held by all layers.
  int64_t tokens() const { return tokens_; }

  // Forgets the tokens from `tokens` on, and a forward that was broken off.
  void Truncate(int64_t tokens);

 private:
  struct Layer {
    at::Tensor k_SKD, v_SKD;  // S: the capacity
  };
  std::vector<Layer> layers_;
  size_t next_layer_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_KV_CACHE_H_
