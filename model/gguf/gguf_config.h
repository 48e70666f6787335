#ifndef MOONRING_MODEL_GGUF_GGUF_CONFIG_H_
#define MOONRING_MODEL_GGUF_GGUF_CONFIG_H_

// Converts the metadata of a GGUF file, and its tensors' shapes and names, to a config.json that
// Transformers 4 and 5 both read (rope_theta and rope_scaling at the top level).

#include <string>

#include "absl/status/statusor.h"
#include "model/gguf/gguf.h"

namespace moonring::model {

// Returns the text of config.json. UNIMPLEMENTED for an unknown architecture, or for a rope scaling
// that the file does not describe completely; INVALID_ARGUMENT if the metadata contradict each
// other or the tensors.
absl::StatusOr<std::string> ConfigFromGguf(const GgufFile& file);

// Number of multi-token prediction layers that the file has after the ordinary layers. The number
// of layers in a config does not include them.
absl::StatusOr<int64_t> PredictingLayers(const GgufFile& file);

// The shortest decimal that rounds to the given fp32 value: for 9.99999975e-06 it is 1e-05.
double ShortestDecimal(float value);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_CONFIG_H_
