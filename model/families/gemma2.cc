// Gemma 2: norms before and after attention and MLP that multiply by 1 + w, scaled embedding,
// softcaps on scores and logits, a sliding window in every other layer.

#include "model/families/families.h"

#include <cmath>
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

absl::Status ReadGemma2(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadGemma(fields, config));
  RETURN_IF_ERROR(ReadActivation(fields, "hidden_activation", "gelu_pytorch_tanh", config));
  ASSIGN_OR_RETURN(const double divisor, ReadPositive(fields, "query_pre_attn_scalar", 256.0));
  config.score_scale = 1.0 / std::sqrt(divisor);
  ASSIGN_OR_RETURN(config.score_softcap, ReadSoftcap(fields, "attn_logit_softcapping"));
  ASSIGN_OR_RETURN(config.logit_softcap, ReadSoftcap(fields, "final_logit_softcapping"));
  return absl::OkStatus();
}

WeightNames GemmaNames() {
  WeightNames names = LlamaNames();
  names.in_block[kAttentionNorm] = "post_attention_layernorm";
  names.in_block[kMlpInputNorm] = "pre_feedforward_layernorm";
  names.in_block[kMlpNorm] = "post_feedforward_layernorm";
  return names;
}

namespace {

absl::Status ReadGemma2Itself(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadGemma2(fields, config));
  if (!fields.Has("attn_logit_softcapping")) config.score_softcap = 50.0;
  if (!fields.Has("final_logit_softcapping")) config.logit_softcap = 30.0;
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", 4096));
  return ReadLayerTypes(
      fields, window, [](const JsonFields&, int64_t layer) { return layer % 2 == 0; }, config);
}

}  // namespace

Family Gemma2() {
  return {
      .title = "Gemma 2",
      .architecture = "Gemma2ForCausalLM",
      .model_type = "gemma2",
      .kv_heads = 4,
      .head_dim = 256,
      .max_position_embeddings = 8192,
      .tied = true,
      .pad_token_id = 0,
      .scales_rope = false,
      .names = GemmaNames(),
      .gguf = {.architecture = "gemma2", .norms_have_one = true},
      .read = ReadGemma2Itself,
  };
}

}  // namespace moonring::model
