// GLM-4 9B (the -hf checkpoints): rotary embedding on half of each head, in neighbouring pairs;
// gate and up are one map.

#include "model/families/families.h"

#include "base/status/status_macros.h"

namespace moonring::model {

absl::Status ReadGlm(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, fields.Bool("attention_bias", true));
  config.rotaries[0].interleaved = true;
  return absl::OkStatus();
}

WeightNames GlmNames() {
  WeightNames names = LlamaNames();
  names.in_block[kGate].clear();
  names.in_block[kUp].clear();
  names.in_block[kGateUp] = "mlp.gate_up_proj";
  return names;
}

Family Glm() {
  return {
      .title = "GLM-4 9B",
      .architecture = "GlmForCausalLM",
      .model_type = "glm",
      .kv_heads = 2,
      .head_dim = 128,
      .rms_norm_eps = 1.5625e-7,
      .partial_rotary_factor = 0.5,
      .max_position_embeddings = 131072,
      .pad_token_id = 151329,
      .scales_rope = false,
      .names = GlmNames(),
      .read = ReadGlm,
  };
}

}  // namespace moonring::model
