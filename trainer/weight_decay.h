#ifndef MOONRING_TRAINER_WEIGHT_DECAY_H_
#define MOONRING_TRAINER_WEIGHT_DECAY_H_

// Which parameters decay, told by name as Transformers' Trainer tells them: not biases, not norms.

#include "absl/strings/string_view.h"

namespace moonring::trainer {

// False for names that hold "bias", "layernorm" or "rmsnorm" (in any case), or of which a part
// between dots is "norm" or ends in "_norm".
bool DecaysWeight(absl::string_view name);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_WEIGHT_DECAY_H_
