// OLMo 3: OLMo 2 with a sliding window in three of four layers. If its rotary embedding is scaled,
// those layers use the unscaled one.

#include <utility>

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/config/rotary_config.h"
#include "model/families/families.h"

namespace moonring::model {

namespace {

absl::Status ReadOlmo3(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadOlmo2(fields, config));
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", 4096));
  RETURN_IF_ERROR(ReadLayerTypes(
      fields, window, [](const JsonFields&, int64_t layer) { return (layer + 1) % 4 != 0; },
      config));
  return ReadWindowRotary(fields, config.rotaries[0].theta, config);
}

}  // namespace

Family Olmo3() {
  Family family = Olmo2();
  family.title = "OLMo 3";
  family.architecture = "Olmo3ForCausalLM";
  family.model_type = "olmo3";
  family.gguf = {};
  family.read = ReadOlmo3;
  return family;
}

}  // namespace moonring::model
