#ifndef MOONRING_TESTS_MODEL_SMALL_CONFIG_H_
#define MOONRING_TESTS_MODEL_SMALL_CONFIG_H_

// Configs of small models, parsed from JSON in the same way as those of real models.

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/families/parse_config.h"
#include "nlohmann/json.hpp"

namespace moonring::testing {

// A small Llama config with `changes` merged in; a null value removes the key.
inline nlohmann::json SmallJson(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                           {"model_type", "llama"},
                           {"vocab_size", 13},
                           {"hidden_size", 16},
                           {"intermediate_size", 24},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"tie_word_embeddings", true}};
  config.merge_patch(changes);
  return config;
}

inline model::ModelConfig ParsedConfig(const nlohmann::json& config) {
  absl::StatusOr<model::ModelConfig> parsed = model::ParseConfig(config.dump(), "config.json");
  if (!parsed.ok()) throw std::invalid_argument(std::string(parsed.status().message()));
  return *std::move(parsed);
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_MODEL_SMALL_CONFIG_H_
