#ifndef MOONRING_MODEL_SAMPLING_H_
#define MOONRING_MODEL_SAMPLING_H_

// From logits to the next token: greedy, or drawn by temperature, top_k, top_p and min_p, in the
// order of Transformers: repetition penalty, temperature, top_k, top_p, min_p, then a draw.
//
// A draw is a function of numbers that name it and of the logits: no generator has a state. Two
// rules for it, which give a token the same probability and another place in [0, 1):
//
//   ChooseToken    U(seed, index), tokens by falling logit      one text that is continued
//   ChooseTokens   U(seed, key, answer, index), tokens by id    many at once: a choice depends on
//                  the prompt's key, the answer's number and the token's, so on no batch, no order
//                  and no rank. All of the vocabulary is sorted by neither; without top_k and top_p
//                  nothing is
//
// All arithmetic beyond the weights exp((logit - max) / temperature) is in fp64.

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
  double top_p = 1.0;        // the fewest tokens whose probabilities sum to it
  double min_p = 0.0;        // least probability, as a share of the greatest
  double repetition_penalty =
      1.0;  // logits of ids already there: divided by it where positive, else multiplied
  std::vector<int64_t> stop_ids;
  uint64_t seed = 0;
};

absl::Status Validate(const SamplingOptions& options);

// The next id by `logits_V` (any dtype and device) after `ids`; `index` counts the new tokens from
// 0.
int64_t ChooseToken(const at::Tensor& logits_V, absl::Span<const int64_t> ids,
                    const SamplingOptions& options, int64_t index);

// One of many choices.
struct ChoiceOf {
  at::Tensor logits_V;                // any dtype and device; several may be of the same
  absl::Span<const int64_t> prompt;   // ids that are there, for the penalty
  absl::Span<const int64_t> new_ids;  // and those that came after; the next one's index is their
                                      // number
  uint64_t key = 0, answer = 0;
};

struct Choice {
  int64_t id = 0;
  // Of the id under softmax(logits / temperature), 1 for a temperature of 0: before penalty, top_k,
  // top_p and min_p, as a trainer has it.
  double log_prob = 0.0;
};

// In the order of `choices`, over the intra-op threads. Throws where a logit is NaN.
std::vector<Choice> ChooseTokens(const std::vector<ChoiceOf>& choices,
                                 const SamplingOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_SAMPLING_H_
