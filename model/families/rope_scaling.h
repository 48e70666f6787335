#ifndef MOONRING_MODEL_FAMILIES_ROPE_SCALING_H_
#define MOONRING_MODEL_FAMILIES_ROPE_SCALING_H_

// Stretches a model's rotary embedding for texts longer than its context, by LLaMA-Factory's rule
// (`rope_scaling`): with C the context of pre-training (original_max_position_embeddings where a
// scaling is there already, else max_position_embeddings),
//
//   factor = ceil(length / C),   max_position_embeddings = C factor
//
// and the config says so, also the one that is saved: what an older scaling said of itself goes,
// every other key of it stays (mrope_section, keys that are not known here). Nothing changes where
// the texts fit, or Transformers' config of the family has no rope_scaling.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/config/config.h"

namespace moonring::model {

struct ScaledRope {
  ModelConfig config;
  std::string report;  // one line: what turns now, or why nothing changed
};

// kind: linear, dynamic, yarn or llama3; INVALID_ARGUMENT for another. `where` opens messages.
absl::StatusOr<ScaledRope> ScaleRope(const ModelConfig& config, absl::string_view kind,
                                     int64_t length, absl::string_view where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FAMILIES_ROPE_SCALING_H_
