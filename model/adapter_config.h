#ifndef MOONRING_MODEL_ADAPTER_CONFIG_H_
#define MOONRING_MODEL_ADAPTER_CONFIG_H_

// Converts between PEFT 0.18's adapter_config.json and AdapterOptions; adapter_folder.h lists what
// is read and what is refused.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/adapter.h"
#include "model/config/config.h"

namespace moonring::model {

inline constexpr char kAdapterConfigFile[] = "adapter_config.json";

// `where` is the prefix of error messages. `modules` are the modules of the base, including its
// embedding and head, that have low-rank or rotation weights in the adapter's file. Modules that
// are not linear maps of a layer become fixed parts (fixed_parts.h).
absl::StatusOr<AdapterOptions> ReadAdapterConfig(absl::string_view text, const std::string& where,
                                                 const ModelConfig& config,
                                                 const std::vector<std::string>& modules);

std::string AdapterConfigText(const Adapter& adapter, const std::string& base_path);

// `init_lora_weights` as it is saved, as JSON text.
std::string InitText(const AdapterOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ADAPTER_CONFIG_H_
