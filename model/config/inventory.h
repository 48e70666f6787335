#ifndef MOONRING_MODEL_CONFIG_INVENTORY_H_
#define MOONRING_MODEL_CONFIG_INVENTORY_H_

// Number of parameters in each component of a model.

#include <cstdint>
#include <string>
#include <vector>

#include "model/config/config.h"

namespace moonring::model {

struct Part {
  // One of "embedding", "attention", "linear attention", "convolution", "state space", "mlp",
  // "experts", "experts' maps", "router", "shared expert", "norms", "head".
  std::string name;
  int64_t parameters = 0;
  int64_t active = 0;  // parameters used for one token
};

// The components of a model, in the order of a forward pass. A tied head is counted once, as the
// embedding.
std::vector<Part> PartsOf(const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_INVENTORY_H_
