#ifndef MOONRING_MODEL_GGUF_GGUF_CONFIG_H_
#define MOONRING_MODEL_GGUF_GGUF_CONFIG_H_

// The metadata of a GGUF file, and the shapes and names of its tensors, as a config.json that
// Transformers 4 and 5 both read (rope_theta and rope_scaling at the top level).

#include <string>

#include "absl/status/statusor.h"
#include "model/gguf/gguf.h"

namespace moonring::model {

// UNIMPLEMENTED for an architecture that is not known, or a scaling that cannot be told from the
// file; INVALID_ARGUMENT where the metadata contradict themselves or the tensors.
absl::StatusOr<std::string> ConfigFromGguf(const GgufFile& file);

// How many blocks after the model's own predict further tokens; they are no part of a config.
absl::StatusOr<int64_t> PredictingLayers(const GgufFile& file);

// The shortest decimal that an fp32 value can have come from: 9.99999975e-06, stored as fp32, is
// 1e-05.
double ShortestDecimal(float value);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_CONFIG_H_
