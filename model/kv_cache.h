#ifndef MOONRING_MODEL_KV_CACHE_H_
#define MOONRING_MODEL_KV_CACHE_H_

// Attention of one growing document on one rank, for decoding. It caches the keys and values of
// every layer.
//
// A model's forward calls Forward once per layer, in order; the given rows follow the cached
// tokens. Memory: layers * tokens * kv_heads * (D + Dv) numbers in the dtype of k and v, and at
// most twice that, since buffers grow by doubling. Not differentiable. With a softcap, a sink, or
// values of another head size than keys, a forward runs this project's attention tiles
// (attention/kernels/tile_plan.h) over the cached keys, in AccumulateType; otherwise it calls
// at::scaled_dot_product_attention.

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

  // Number of cached tokens, the same for all layers.
  int64_t tokens() const { return tokens_; }

  // Drops the cached tokens from index `tokens` on, and the state of a forward that was
  // interrupted.
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
