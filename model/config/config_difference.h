#ifndef MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_
#define MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_

// Compares two configs by what they compute: sizes, rules and numbers of all layers. Names, the
// storage of experts, and token ids are ignored; numbers may differ by an fp32 rounding.

#include <string>

#include "model/config/config.h"

namespace moonring::model {

// Describes the first difference, e.g. "the window of layer 1 is 16, not 0"; "" if there is none.
std::string ConfigDifference(const ModelConfig& is, const ModelConfig& other);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_
