#ifndef MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_
#define MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_

// Whether two configs compute the same: sizes, rules and numbers of all layers. What they call
// themselves and their weights, how experts are stored, and token ids are passed over; numbers may
// differ by an fp32 rounding.

#include <string>

#include "model/config/config.h"

namespace moonring::model {

// The first thing that differs, "the window of layer 1 is 16, not 0"; "" where nothing does.
std::string ConfigDifference(const ModelConfig& is, const ModelConfig& other);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_CONFIG_DIFFERENCE_H_
