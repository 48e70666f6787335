#ifndef MOONRING_MODEL_KV_CACHE_H_
#define MOONRING_MODEL_KV_CACHE_H_

// Attention of one growing document on one rank, for decoding. It caches the keys and values of
// every layer.
//
// A model's forward calls Forward once per layer, in order; the rows of q, k and v are the tokens
// after the cached ones. Memory: layers * tokens * kv_heads * (D + Dv) numbers in the dtype of k
// and v, with D and Dv the head sizes of keys and values, and at most twice that, since buffers
// grow by doubling. Not differentiable. With a softcap, a sink, or values whose head size differs
// from that of the keys, attention over the cached keys is computed tile by tile
// (attention/kernels/tile_plan.h), in AccumulateType; otherwise by
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

  // Drops the cached tokens from index `tokens` on. Also drops what an interrupted forward has
  // cached.
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
