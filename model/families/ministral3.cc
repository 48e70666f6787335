// Ministral 3, the text model: a Mistral with scaled rotary embedding, whose queries are scaled by
// the logarithm of their position beyond the context of pre-training (as in Llama 4).

#include <optional>

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/config/rotary_config.h"
#include "model/families/families.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

// Sets the rope scaling that Transformers uses if config.json has no rope_parameters.
absl::Status ScaleRopeOfMinistral3(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json scaling = {{"rope_type", "yarn"},
                                  {"factor", 16.0},
                                  {"original_max_position_embeddings", 16384},
                                  {"mscale", 1.0},
                                  {"mscale_all_dim", 1.0}};
  RotaryRule& rotary = config.rotaries[0];
  rotary.theta = 1e6;
  rotary.query_growth = 0.1;
  rotary.query_growth_length = 16384;
  return ReadRopeScaling(JsonFields(scaling, fields.where()), fields, config, rotary);
}

absl::Status ReadMinistral3(const JsonFields& fields, ModelConfig& config) {
  const bool given =
      fields.Find("rope_parameters") != nullptr || fields.Find("rope_scaling") != nullptr;
  RETURN_IF_ERROR(given ? ReadQueryGrowth(fields, config.rotaries[0])
                        : ScaleRopeOfMinistral3(fields, config));
  return ReadWindow(fields, std::nullopt, config);
}

}  // namespace

Family Ministral3() {
  return {
      .title = "Ministral 3 (text)",
      .architecture = "Ministral3ForCausalLM",
      .model_type = "ministral3",
      .kv_heads = 8,
      .head_dim = 128,
      .rms_norm_eps = 1e-5,
      .max_position_embeddings = 262144,
      .pad_token_id = 11,
      .newer = true,
      .names = LlamaNames(),
      .read = ReadMinistral3,
  };
}

}  // namespace moonring::model
