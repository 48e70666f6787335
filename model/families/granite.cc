// Granite 3: a Llama with scale factors on embedding, scores, residuals and logits.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

absl::Status ReadGranite(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(fields, config));
  ASSIGN_OR_RETURN(config.mlp_bias, fields.Bool("mlp_bias", false));
  ASSIGN_OR_RETURN(config.embedding_scale, ReadPositive(fields, "embedding_multiplier", 1.0));
  ASSIGN_OR_RETURN(config.score_scale, ReadPositive(fields, "attention_multiplier", 1.0));
  ASSIGN_OR_RETURN(config.residual_scale, ReadPositive(fields, "residual_multiplier", 1.0));
  ASSIGN_OR_RETURN(const double divisor, ReadPositive(fields, "logits_scaling", 1.0));
  config.logit_scale = 1.0 / divisor;
  return absl::OkStatus();
}

Family Granite() {
  return {
      .title = "Granite 3",
      .architecture = "GraniteForCausalLM",
      .model_type = "granite",
      .names = LlamaNames(),
      .gguf = {.architecture = "granite", .interleaved_heads = true},
      .read = ReadGranite,
  };
}

}  // namespace moonring::model
