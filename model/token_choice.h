#ifndef MOONRING_MODEL_TOKEN_CHOICE_H_
#define MOONRING_MODEL_TOKEN_CHOICE_H_

// From logits to the next token: greedy, or drawn by temperature, top_k, top_p and min_p, in the
// order of Transformers: repetition penalty, temperature, top_k, top_p, min_p, then a draw. A logit
// may be -inf: the id is then never chosen.
//
// A draw is a function of the logits and of counters; there is no random generator with a state.
// There are two functions. Both give a token the same probability, but they draw U from different
// counters and order the tokens' intervals of [0, 1) differently:
//
//   ChooseToken    U(seed, index), tokens by falling logit      one text that is continued
//   ChooseTokens   U(seed, key, answer, index), tokens by id    many texts at once
//
// A choice of ChooseTokens depends on the prompt's key, the answer's number and the token's index,
// not on the batch, its order or the rank. Neither function sorts the whole vocabulary; without
// top_k and top_p nothing is sorted.
//
// The weights exp((logit - max) / temperature) are summed and compared in fp64.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace moonring::model {

struct SamplingOptions {
  int64_t max_new_tokens = 128;
  double temperature = 0.0;  // 0: greedy
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;        // keeps the fewest tokens whose probabilities sum to top_p
  double min_p = 0.0;        // minimum probability, as a fraction of the greatest one
  // A logit of an id that has already occurred is divided by this number if the logit is positive,
  // and multiplied by it otherwise. 1: no penalty.
  double repetition_penalty = 1.0;
  std::vector<int64_t> stop_ids;
  uint64_t seed = 0;
};

absl::Status Validate(const SamplingOptions& options);

// Chooses the next id from `logits_V` (any dtype and device) after `ids`; `index` counts the new
// tokens from 0.
int64_t ChooseToken(const at::Tensor& logits_V, absl::Span<const int64_t> ids,
                    const SamplingOptions& options, int64_t index);

// The input from which ChooseTokens chooses one token.
struct ChoiceOf {
  at::Tensor logits_V;               // any dtype and device; choices may share a tensor
  absl::Span<const int64_t> prompt;  // for the repetition penalty
  absl::Span<const int64_t>
      new_ids;  // ids generated after the prompt; their number is the next token's index
  uint64_t key = 0, answer = 0;
  const SamplingOptions* sampling = nullptr;  // null: the options of the call
  int64_t top = 0;                            // size of Choice::top
  // What a logits hook returned for logits_V (logits_hook.h), of the same dtype: the token is
  // chosen from these logits. Undefined: from logits_V.
  at::Tensor hooked_V = {};
};

struct IdLogProb {
  int64_t id = 0;
  double log_prob = 0.0;
};

struct Choice {
  int64_t id = 0;
  // Log-probability of the id under softmax(logits / temperature), or under softmax(logits) if
  // temperature is 0. It does not include a logits hook, repetition penalty, top_k, top_p and
  // min_p, so that it is comparable to the log-probability that training computes.
  double log_prob = 0.0;
  // The ids with the greatest logits, in falling order (equal logits by id), with log-probs as
  // above: an id that is also the chosen one has the same number.
  std::vector<IdLogProb> top;
};

// Returns one Choice for each of `choices`, in the same order. Runs in parallel on LibTorch's
// intra-op threads. Throws if a logit is NaN.
std::vector<Choice> ChooseTokens(const std::vector<ChoiceOf>& choices,
                                 const SamplingOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_TOKEN_CHOICE_H_
