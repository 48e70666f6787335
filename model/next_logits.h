#ifndef MOONRING_MODEL_NEXT_LOGITS_H_
#define MOONRING_MODEL_NEXT_LOGITS_H_

// Functions that sampler.h and rollout.h share: checks of a prompt, and logits from hidden states.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "model/transformer.h"

namespace moonring::model {

// Returns INVALID_ARGUMENT if `ids` is empty, has an id outside the vocabulary, or is longer than
// the model's maximum number of positions.
absl::Status CheckPrompt(const Transformer& model, absl::Span<const int64_t> ids);

// Applies the head, with its LoRA if it has one, to hidden_BD, rows of the residual stream after
// the final norm. Returns logits [B, V] in fp32 (fp64 for fp64), with the config's scale and
// softcap. Fetches the head's weight even if B is 0, because fetching a sharded weight is a
// collective of all ranks.
at::Tensor NextLogits(const Transformer& model, const at::Tensor& hidden_BD);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_NEXT_LOGITS_H_
