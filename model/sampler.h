#ifndef MOONRING_MODEL_SAMPLER_H_
#define MOONRING_MODEL_SAMPLER_H_

// Decoding on one rank with a key-value cache: greedy, or drawn by temperature, top_k and top_p.
//
// The choice goes in the order of Transformers: repetition penalty, temperature, top_k, top_p, then
// a draw. A draw depends on (seed, index of the new token) and the logits alone: the same call
// gives the same answer, and no generator has state. Cost of a token: one forward of one row, and
// the head. A prompt that continues what was last decoded (the next turn of a conversation) costs
// its new tokens only. Keys and values are cut back to what a prompt shares with that; the state of
// other mixers (linear attention, short convolutions) cannot be, and is kept as it was before the
// last token of the last two prompts besides: such a model runs from there, or from nothing.
//
// Where several ranks share the experts all of them decode the same, and take the first one's
// choices: their own may differ in rounding.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mixers/mixing_cache.h"
#include "model/kv_cache.h"
#include "model/sampling.h"
#include "model/stream_hooks.h"
#include "model/transformer.h"

namespace moonring::model {

class Sampler {
 public:
  // `model` must outlive the sampler. Weights changed meanwhile are seen after Forget. `after` acts
  // on all rows that are decoded: a prompt's, some hundred at a time, then each new token's. What
  // is cached was made with it.
  explicit Sampler(Transformer& model, StreamHook after = nullptr);

  // Logits [V] of the token after `ids`, in the stream's dtype. INVALID_ARGUMENT for no ids, one
  // outside the vocabulary, or more than the model has positions for.
  absl::StatusOr<at::Tensor> NextLogits(absl::Span<const int64_t> ids);

  // The new ids; the last is a stop id where one ended it. `on_token` sees each as it is made, but
  // for a stop id; false ends. Ends too where the model's positions are used up.
  absl::StatusOr<std::vector<int64_t>> Generate(
      absl::Span<const int64_t> prompt, const SamplingOptions& options,
      const std::function<bool(int64_t)>& on_token = nullptr);

  // Drops what is cached.
  void Forget();

 private:
  // Mixers' state after so many tokens.
  struct MarkedState {
    int64_t tokens = 0;
    mixers::MixingCache::Kept kept;
  };

  // Keeps the first `tokens` cached ones, or as many of them as can be; how many.
  int64_t GoBack(int64_t tokens);
  void Mark();

  Transformer& model_;
  const StreamHook after_;
  const int64_t attending_;  // layers of softmax attention
  std::shared_ptr<KvCache> cache_;
  std::shared_ptr<mixers::MixingCache> mixing_;  // null where all layers attend
  std::deque<MarkedState> marks_;                // by rising tokens
  std::vector<int64_t> cached_ids_;              // the tokens that the caches hold
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_SAMPLER_H_
