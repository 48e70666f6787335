#ifndef MOONRING_MODEL_NEXT_LOGITS_H_
#define MOONRING_MODEL_NEXT_LOGITS_H_

// What all decoding begins and ends with: prompts that a model can go on from, and the logits of
// its states.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "model/transformer.h"

namespace moonring::model {

// INVALID_ARGUMENT for no ids, one outside the vocabulary, or more than the model has positions
// for.
absl::Status CheckPrompt(const Transformer& model, absl::Span<const int64_t> ids);

// Whether some layers have a mixer that is not softmax attention, and so a state of their own.
bool HasOtherMixers(const Transformer& model);

// [B, D] of the stream after the final norm -> [B, V] in the wide dtype, with the config's scale
// and softcap. Leases the head also where B is 0: that may be a call of all ranks.
at::Tensor NextLogits(const Transformer& model, const at::Tensor& hidden_BD);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_NEXT_LOGITS_H_
