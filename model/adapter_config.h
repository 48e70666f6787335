#ifndef MOONRING_MODEL_ADAPTER_CONFIG_H_
#define MOONRING_MODEL_ADAPTER_CONFIG_H_

// adapter_config.json of PEFT 0.18 as options of an adapter, and back; adapter_folder.h says what
// is read and what is refused.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/adapter.h"
#include "model/config/config.h"

namespace moonring::model {

inline constexpr char kAdapterConfigFile[] = "adapter_config.json";

// `where` opens messages; `modules`: those of the base that have low-rank or rotating weights in
// the file, its embedding and head among them. What is no linear map of a layer is left to fixed
// parts.
absl::StatusOr<AdapterOptions> ReadAdapterConfig(absl::string_view text, const std::string& where,
                                                 const ModelConfig& config,
                                                 const std::vector<std::string>& modules);

std::string AdapterConfigText(const Adapter& adapter, const std::string& base_path);

// `init_lora_weights` of what is saved, as JSON.
std::string InitText(const AdapterOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ADAPTER_CONFIG_H_
