#ifndef MOONRING_MODEL_SAVE_GRADIENTS_H_
#define MOONRING_MODEL_SAVE_GRADIENTS_H_

// The gradients of what learns, in one safetensors file under their weights' names.

#include <string>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"

namespace moonring::model {

// Collective over the ranks that shard the gradients: one of them `writes`, the others only take
// part in gathering. Fails where the file cannot be written.
absl::Status SaveGradients(const base::Parameters& parameters, const std::string& path,
                           bool writes);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_SAVE_GRADIENTS_H_
