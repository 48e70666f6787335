#ifndef MOONRING_MODEL_CONFIG_ROTARY_CONFIG_H_
#define MOONRING_MODEL_CONFIG_ROTARY_CONFIG_H_

// How config.json says what turns: rope_theta, partial_rotary_factor, rope_scaling {rope_type or
// type, factor, ...}, rope_parameters (the same and rope_theta, as Transformers 5 writes it). `su`
// is longrope's first name.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/config/config.h"
#include "model/files/json_text.h"

namespace moonring::model {

// The rotary of a config whose sizes are read, with the family's defaults. INVALID_ARGUMENT: a
// number out of range, factors that are not one a pair, a key missing that the type wants, two
// thetas; UNIMPLEMENTED: an unknown type, named with the nearest.
absl::StatusOr<RotaryRule> ReadRotary(const JsonFields& fields, const ModelConfig& config);

// Takes one scaling object into `rule`.
absl::Status ReadRopeScaling(const JsonFields& scaling, const JsonFields& fields,
                             const ModelConfig& config, RotaryRule& rule);

// What DeepSeek-V3 multiplies scores by where its rotary is scaled by an object with
// mscale_all_dim a and a factor: (0.1 a ln(factor) + 1)^2; else 1.
absl::StatusOr<double> ReadScoreMagnitude(const JsonFields& fields);

// How queries grow with their position (RotaryRule::query_growth), by llama_4_scaling_beta and
// original_max_position_embeddings of rope_parameters, both of which must be there.
absl::Status ReadQueryGrowth(const JsonFields& fields, RotaryRule& rule);

// The rotary of a family's layers with a window, which turn by another than the rest: appended, and
// those layers' rule. What Transformers 5 says of them in rope_parameters: sliding_attention; else
// not scaled, of `theta`.
absl::Status ReadWindowRotary(const JsonFields& fields, double theta, ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_ROTARY_CONFIG_H_
