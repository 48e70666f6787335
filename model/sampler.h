#ifndef MOONRING_MODEL_SAMPLER_H_
#define MOONRING_MODEL_SAMPLER_H_

// Decoding on one rank with a key-value cache: greedy, or drawn by temperature, top_k and top_p.
//
// The order is that of Transformers: repetition penalty, temperature, top_k, top_p, then a draw. A
// logits hook (logits_hook.h) comes before them. A
// draw depends only on (seed, index of the new token) and the logits: the same call returns the
// same answer, and no generator has state. Cost of a token: one forward of one row, and the head. A
// prompt that continues what was last decoded (the next turn of a conversation) costs only its new
// tokens: keys and values are truncated to the common prefix. The recurrent state of other mixers
// (linear attention, short convolutions) cannot be truncated. So the sampler keeps a copy of that
// state as it was before the last token of each of the last two prompts. A model with such layers
// continues from one of these copies, or computes the whole prompt.
//
// If experts are divided among several ranks, all of these ranks decode the same sequence and use
// the tokens that the first rank chose, because their own choices may differ by rounding.

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
#include "model/logits_hook.h"
#include "model/stream_hooks.h"
#include "model/token_choice.h"
#include "model/transformer.h"

namespace moonring::model {

class Sampler {
 public:
  // `model` must outlive the sampler. Call Forget after its weights change. `after` is a hook on
  // the residual stream (stream_hooks.h). It is called for the rows of the prompt, some hundred
  // rows per call, then for the row of each new token. It is not called for cached tokens, whose
  // keys and values already include its effect. `logits` changes the logits of each new token
  // before it is chosen; it is called with one row, prompt 0, answer 0 and key 0.
  explicit Sampler(Transformer& model, StreamHook after = nullptr, LogitsHook logits = nullptr);

  // Returns the logits [V] of the token after `ids`, in fp32 (fp64 for fp64). INVALID_ARGUMENT if
  // there are no ids, an id is outside the vocabulary, or there are more ids than the model has
  // positions.
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
  // A copy of the mixers' recurrent state after the first `tokens` tokens.
  struct MarkedState {
    int64_t tokens = 0;
    mixers::MixingCache::Kept kept;
  };

  // Truncates the caches to the first `tokens` tokens, or to fewer if the model has a recurrent
  // state and no copy of it is kept for that length. Returns the number of cached tokens.
  int64_t GoBack(int64_t tokens);
  void Mark();

  // Chooses the token after `ids`, of which the first `prompt` are the prompt.
  int64_t NextId(at::Tensor logits_V, absl::Span<const int64_t> ids, size_t prompt,
                 const SamplingOptions& options) const;

  Transformer& model_;
  const StreamHook after_;
  const LogitsHook logits_;
  const int64_t attending_;  // number of softmax-attention layers
  std::shared_ptr<KvCache> cache_;
  std::shared_ptr<mixers::MixingCache> mixing_;  // null if all layers have softmax attention
  std::deque<MarkedState> marks_;                // in increasing order of tokens
  std::vector<int64_t> cached_ids_;              // the ids of the cached tokens
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_SAMPLER_H_
