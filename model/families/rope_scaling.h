#ifndef MOONRING_MODEL_FAMILIES_ROPE_SCALING_H_
#define MOONRING_MODEL_FAMILIES_ROPE_SCALING_H_

// Extends a model's rotary embedding for texts longer than its context, by LLaMA-Factory's rule
// (`rope_scaling`). With C the context length of pre-training (original_max_position_embeddings if
// the config already scales rope, else max_position_embeddings),
//
//   factor = ceil(length / C),   max_position_embeddings = C factor
//
// The config, including the saved one, is changed accordingly: keys of an older scaling are
// removed, all other keys stay (mrope_section, unknown keys). Nothing changes if `length` is at
// most the model's context length, or if the family's config in Transformers has no rope_scaling.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/config/config.h"

namespace moonring::model {

struct ScaledRope {
  ModelConfig config;
  std::string report;  // one line: the new rotary embedding, or why nothing changed
};

// kind: linear, dynamic, yarn or llama3; INVALID_ARGUMENT for another. `where` is the prefix of
// messages.
absl::StatusOr<ScaledRope> ScaleRope(const ModelConfig& config, absl::string_view kind,
                                     int64_t length, absl::string_view where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FAMILIES_ROPE_SCALING_H_
