#ifndef MOONRING_MODEL_ADAPTER_CONFIG_H_
#define MOONRING_MODEL_ADAPTER_CONFIG_H_

// Converts between PEFT 0.18's adapter_config.json and AdapterOptions; adapter_folder.h lists which
// options are read and which are refused.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/adapter.h"
#include "model/config/config.h"

namespace moonring::model {

inline constexpr char kAdapterConfigFile[] = "adapter_config.json";

// Parses `text`, an adapter_config.json. Error messages begin with `where`. `modules` are the
// modules of the base model, including its embedding and head, that have LoRA or OFT weights in the
// adapter's file. The weights of modules that are not linear maps of a layer are read but not
// trained (fixed_parts.h).
absl::StatusOr<AdapterOptions> ReadAdapterConfig(absl::string_view text, const std::string& where,
                                                 const ModelConfig& config,
                                                 const std::vector<std::string>& modules);

std::string AdapterConfigText(const Adapter& adapter, const std::string& base_path);

// The value of `init_lora_weights` to write into adapter_config.json, as JSON text.
std::string InitText(const AdapterOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ADAPTER_CONFIG_H_
