#ifndef MOONRING_MODEL_GGUF_CONFIG_TO_GGUF_H_
#define MOONRING_MODEL_GGUF_CONFIG_TO_GGUF_H_

// What a GGUF file says of a model, under the keys that llama.cpp's converter writes: the way back
// is gguf_config.h. Not all that a config may say has a key: whoever writes reads the file's header
// again and compares (config_difference.h).

#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/gguf/gguf_writer.h"

namespace moonring::model {

// From general.architecture on; token ids and what else belongs to the tokenizer are not among
// them. UNIMPLEMENTED, by name, for a family that has no name in GGUF.
absl::StatusOr<GgufMetadata> ConfigToGguf(const ModelConfig& config);

// Tensors of the rotary embedding: llama3's and longrope's factors, one a pair of features.
std::vector<GgufTensorToWrite> RotaryTensors(const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_CONFIG_TO_GGUF_H_
