#ifndef MOONRING_MODEL_CONFIG_STORED_DTYPE_H_
#define MOONRING_MODEL_CONFIG_STORED_DTYPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace moonring::model {

// The dtype of the weights according to config.json (keys "dtype" or "torch_dtype"): "fp32",
// "bf16", "fp16" or "fp64"; "fp32" if neither key exists.
std::string StoredDtype(absl::string_view config_json);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_STORED_DTYPE_H_
