#ifndef MOONRING_TRAINER_OPTIMIZER_WEIGHT_DECAY_H_
#define MOONRING_TRAINER_OPTIMIZER_WEIGHT_DECAY_H_

// Recognizes by name the parameters with weight decay, as Transformers' Trainer does: all but
// biases and norms.

#include "absl/strings/string_view.h"

namespace moonring::trainer {

// False for names that contain "bias", "layernorm" or "rmsnorm" (in any case), or that have a
// component between dots which is "norm" or ends in "_norm".
bool DecaysWeight(absl::string_view name);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_WEIGHT_DECAY_H_
