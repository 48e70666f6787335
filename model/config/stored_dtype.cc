#include "model/config/stored_dtype.h"

#include "nlohmann/json.hpp"

namespace moonring::model {

std::string StoredDtype(absl::string_view config_json) {
  const auto json = nlohmann::json::parse(config_json.begin(), config_json.end(), nullptr,
                                          /*allow_exceptions=*/false);
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!json.is_object() || !json.contains(key)) continue;
    if (json[key] == "bfloat16") return "bf16";
    if (json[key] == "float16") return "fp16";
    if (json[key] == "float64") return "fp64";
  }
  return "fp32";
}

}  // namespace moonring::model
