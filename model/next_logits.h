#ifndef MOONRING_MODEL_NEXT_LOGITS_H_
#define MOONRING_MODEL_NEXT_LOGITS_H_

// The first and the last step of all decoding: checks of the prompt, and logits from hidden states.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "model/transformer.h"

namespace moonring::model {

// INVALID_ARGUMENT if there are no ids, an id is outside the vocabulary, or there are more ids than
// the model has positions.
absl::Status CheckPrompt(const Transformer& model, absl::Span<const int64_t> ids);

// Whether some layers have a mixer other than softmax attention, and thus a recurrent state.
bool HasOtherMixers(const Transformer& model);

// [B, D] of the residual stream after the final norm -> [B, V] in the wide dtype (fp32, or fp64 for
// fp64), with the config's scale and softcap. Leases the head even if B is 0, because a lease may
// be a collective of all ranks.
at::Tensor NextLogits(const Transformer& model, const at::Tensor& hidden_BD);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_NEXT_LOGITS_H_
