#ifndef MOONRING_MODEL_CONFIG_INVENTORY_H_
#define MOONRING_MODEL_CONFIG_INVENTORY_H_

// How many parameters the parts of a model have.

#include <cstdint>
#include <string>
#include <vector>

#include "model/config/config.h"

namespace moonring::model {

struct Part {
  std::string name;  // "embedding", "attention", "linear attention", "convolution",
                     // "state space", "mlp", "experts", "experts' maps", "router",
                     // "shared expert", "norms", "head"
  int64_t parameters = 0;
  int64_t active = 0;  // of them, those that one token meets
};

// The parts that there are, in the order of a forward pass. A tied head is the embedding.
std::vector<Part> PartsOf(const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_INVENTORY_H_
