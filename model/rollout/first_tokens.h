#ifndef MOONRING_MODEL_ROLLOUT_FIRST_TOKENS_H_
#define MOONRING_MODEL_ROLLOUT_FIRST_TOKENS_H_

// The first token of each answer, chosen from logits that a caller has computed already, as when a
// prompt is scored and continued by one token.

#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "model/rollout/rollout_options.h"
#include "model/transformer.h"

namespace moonring::model {

// Chooses the tokens that Rollout would choose if these were its logits. `logits_BV`: one row for
// each prompt, of any dtype and device. result[p][a] is answer a to prompt p, with one token.
// Throws if a prompt is invalid or the shape is another one.
std::vector<std::vector<Answer>> FirstTokens(const Transformer& model, const at::Tensor& logits_BV,
                                             absl::Span<const RolloutPrompt> prompts,
                                             const RolloutOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_FIRST_TOKENS_H_
