#ifndef MOONRING_MODEL_SAMPLER_H_
#define MOONRING_MODEL_SAMPLER_H_

// Decoding on one rank with a key-value cache: greedy, or drawn by temperature, top_k and top_p.
//
// The order is that of Transformers: repetition penalty, temperature, top_k, top_p, then a draw. A
// draw depends only on (seed, index of the new token) and the logits: the same call returns the
// same answer, and no generator has state. Cost of a token: one forward of one row, and the head. A
// prompt that continues what was last decoded (the next turn of a conversation) costs only its new
// tokens: keys and values are truncated to the common prefix. The state of other mixers (linear
// attention, short convolutions) cannot be truncated. Copies of it are kept from before the last
// token of each of the last two prompts; such a model continues from one of these copies, or starts
// from nothing.
//
// If several ranks share the experts, all of them decode the same sequence and use the first rank's
// choices, because their own may differ in rounding.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mixers/cache/mixing_cache.h"
#include "model/kv_cache.h"
#include "model/sampling.h"
#include "model/stream_hooks.h"
#include "model/transformer.h"

namespace moonring::model {

class Sampler {
 public:
  // `model` must outlive the sampler. Call Forget after its weights change. `after` is called for
  // all rows that are decoded: first a prompt's, some hundred rows per call, then each new token's.
  // Cached keys and values already include its effect.
  explicit Sampler(Transformer& model, StreamHook after = nullptr);

  // Logits [V] of the token after `ids`, in the stream's dtype. INVALID_ARGUMENT if there are no
  // ids, an id is outside the vocabulary, or there are more ids than the model has positions.
  absl::StatusOr<at::Tensor> NextLogits(absl::Span<const int64_t> ids);

  // Returns the new ids; the last one is a stop id if one ended the text. `on_token` is called for
  // each new id except a stop id; generation ends if it returns false. Generation also ends when
  // the model's positions are used up.
  absl::StatusOr<std::vector<int64_t>> Generate(
      absl::Span<const int64_t> prompt, const SamplingOptions& options,
      const std::function<bool(int64_t)>& on_token = nullptr);

  // Clears the caches.
  void Forget();

 private:
  // The mixers' state after `tokens` tokens.
  struct MarkedState {
    int64_t tokens = 0;
    mixers::MixingCache::Kept kept;
  };

  // Truncates the caches to the first `tokens` tokens, or to fewer where a mixer's state requires
  // it. Returns how many remain.
  int64_t GoBack(int64_t tokens);
  void Mark();

  Transformer& model_;
  const StreamHook after_;
  const int64_t attending_;  // number of softmax-attention layers
  std::shared_ptr<KvCache> cache_;
  std::shared_ptr<mixers::MixingCache> mixing_;  // null where all layers attend
  std::deque<MarkedState> marks_;                // in increasing order of tokens
  std::vector<int64_t> cached_ids_;              // the ids of the cached tokens
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_SAMPLER_H_
