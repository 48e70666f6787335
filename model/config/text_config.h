#ifndef MOONRING_MODEL_CONFIG_TEXT_CONFIG_H_
#define MOONRING_MODEL_CONFIG_TEXT_CONFIG_H_

// The section of a config.json that describes the decoder: the whole file, or text_config in a
// composite (multimodal) model.

#include "base/text/ordered_json.h"
#include "model/config/family.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

// `root` is ModelConfig::json, parsed as JSON.
inline base::OrderedJson& TextConfigOf(const Family& family, base::OrderedJson& root) {
  return family.composite() ? root["text_config"] : root;
}

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_TEXT_CONFIG_H_
