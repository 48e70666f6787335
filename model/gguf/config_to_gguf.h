#ifndef MOONRING_MODEL_GGUF_CONFIG_TO_GGUF_H_
#define MOONRING_MODEL_GGUF_CONFIG_TO_GGUF_H_

// Converts a model's config to the metadata of a GGUF file, under the keys that llama.cpp's
// converter writes: the reverse of gguf_config.h. Not every property of a config has a key, so the
// writer parses the new header back to a config and compares the two (config_difference.h).

#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/gguf/gguf_writer.h"

namespace moonring::model {

// Returns the metadata from the key general.architecture on, without those of the tokenizer (token
// ids and so on). UNIMPLEMENTED, naming the family, if GGUF has no architecture name for it.
absl::StatusOr<GgufMetadata> ConfigToGguf(const ModelConfig& config);

// The rotary embedding's tensors: llama3's and longrope's factors, one per pair of features.
std::vector<GgufTensorToWrite> RotaryTensors(const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_CONFIG_TO_GGUF_H_
