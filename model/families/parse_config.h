#ifndef MOONRING_MODEL_FAMILIES_PARSE_CONFIG_H_
#define MOONRING_MODEL_FAMILIES_PARSE_CONFIG_H_

// config.json as a ModelConfig. Both shapes are read, that of Transformers 4 (rope_theta and
// rope_scaling at the top level) and that of Transformers 5 (rope_parameters: {rope_theta,
// rope_type, ...}).
//
// Where a key is missing, what Transformers takes for a model of that family is taken; the five
// sizes (vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads) must
// be there, or, in place of the number of layers, the family's list of them (Family::layer_keys).
// Numbers that Python writes and JSON does not have are read too (json_text.h).

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/config/config.h"

namespace moonring::model {

// Fails with INVALID_ARGUMENT (broken JSON, a missing key, a wrong type, sizes that contradict one
// another) or UNIMPLEMENTED (another architecture, activation or rope scaling, a quantised
// checkpoint), in one line that opens with `where`: the file's path.
absl::StatusOr<ModelConfig> ParseConfig(absl::string_view text, absl::string_view where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FAMILIES_PARSE_CONFIG_H_
