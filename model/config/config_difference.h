#ifndef MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_
#define MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_

// Compares two configs by the function that the models compute: sizes, kinds of layers and
// constants. Names, the storage of experts, and token ids are ignored; constants may differ by an
// fp32 rounding.

#include <string>

#include "model/config/config.h"

namespace moonring::model {

// Describes the first difference, e.g. "the window of layer 1 is 16, not 0"; "" if the configs are
// equal.
std::string ConfigDifference(const ModelConfig& is, const ModelConfig& other);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_
