#ifndef MOONRING_MODEL_CONFIG_ROTARY_CONFIG_H_
#define MOONRING_MODEL_CONFIG_ROTARY_CONFIG_H_

// Reads the rotary embedding from config.json: rope_theta, partial_rotary_factor, rope_scaling
// {rope_type or type, factor, ...}, rope_parameters (the same with rope_theta, as Transformers 5
// writes it). `su` is an older name of longrope.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/config/config.h"
#include "model/files/json_text.h"

namespace moonring::model {

// Reads the rotary embedding; `config` must already have its sizes, and the family gives defaults.
// INVALID_ARGUMENT if a number is out of range, a list has not one factor per pair, the type
// requires a key that is missing, or two thetas differ; UNIMPLEMENTED for an unknown type (the
// message suggests the nearest one).
absl::StatusOr<RotaryRule> ReadRotary(const JsonFields& fields, const ModelConfig& config);

// Reads `scaling`, the object rope_scaling or rope_parameters, into `rule`.
absl::Status ReadRopeScaling(const JsonFields& scaling, const JsonFields& fields,
                             const ModelConfig& config, RotaryRule& rule);

// DeepSeek-V3's factor of attention scores: (0.1 a ln(factor) + 1)^2 if the rotary's scaling object
// has mscale_all_dim a and a factor; else 1.
absl::StatusOr<double> ReadScoreMagnitude(const JsonFields& fields);

// Reads the position-dependent scale of queries (RotaryRule::query_growth) from
// llama_4_scaling_beta and original_max_position_embeddings of rope_parameters, both of which are
// required.
absl::Status ReadQueryGrowth(const JsonFields& fields, RotaryRule& rule);

// Appends a second rotary embedding to config.rotaries and uses it in the sliding-window layers. It
// is read from rope_parameters.sliding_attention, where Transformers 5 writes it; if that is
// missing, the second embedding is not scaled and uses `theta`.
absl::Status ReadWindowRotary(const JsonFields& fields, double theta, ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_ROTARY_CONFIG_H_
