#ifndef MOONRING_MODEL_WEIGHTS_H_
#define MOONRING_MODEL_WEIGHTS_H_

// The weights that a model of a given config consists of: their published (Hugging Face) names and shapes.

#include <vector>

#include "absl/strings/string_view.h"
#include "model/config.h"
#include "model/weight_shape.h"

namespace moonring::model {

// From the embedding to the head, in the order in which a forward pass meets them. No head where it is tied to the embedding.
std::vector<WeightShape> WantedWeights(const ModelConfig& config);

// Buffers that older writers stored beside the weights and that are computed anew: rotary inv_freq.
bool IsStoredBuffer(absl::string_view name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_WEIGHTS_H_
