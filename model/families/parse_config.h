#ifndef MOONRING_MODEL_FAMILIES_PARSE_CONFIG_H_
#define MOONRING_MODEL_FAMILIES_PARSE_CONFIG_H_

// Parses config.json into a ModelConfig. Both forms are read: that of Transformers 4 (rope_theta
// and rope_scaling at the top level) and that of Transformers 5 (rope_parameters: {rope_theta,
// rope_type, ...}).
//
// A missing key gets the default that Transformers has for the family. The five sizes (vocab_size,
// hidden_size, intermediate_size, num_hidden_layers, num_attention_heads) are required; the
// family's list of layers (Family::layer_keys) may replace the number of layers. Numbers that
// Python writes but JSON does not allow are read too (json_text.h).

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/config/config.h"

namespace moonring::model {

// Fails with INVALID_ARGUMENT (invalid JSON, a missing key, a wrong type, sizes that contradict one
// another) or UNIMPLEMENTED (another architecture, activation or rope scaling, a quantised
// checkpoint). The message is one line that begins with `where`, the file's path.
absl::StatusOr<ModelConfig> ParseConfig(absl::string_view text, absl::string_view where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FAMILIES_PARSE_CONFIG_H_
