// Gemma (the first): a Llama whose norms multiply by 1 + w, with a scaled embedding and a tied
// head.

#include "model/families/families.h"

#include <cmath>

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

absl::Status ReadGemma(const JsonFields& fields, ModelConfig& config) {
  config.norm_adds_one = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  return ReadAttentionBias(fields, config);
}

namespace {

// Transformers uses hidden_act and ignores hidden_activation.
absl::Status ReadGemmaItself(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadGemma(fields, config));
  return ReadActivation(fields, "hidden_act", "gelu_pytorch_tanh", config);
}

}  // namespace

Family Gemma() {
  return {
      .title = "Gemma",
      .architecture = "GemmaForCausalLM",
      .model_type = "gemma",
      .kv_heads = 16,
      .head_dim = 256,
      .max_position_embeddings = 8192,
      .tied = true,
      .pad_token_id = 0,
      .scales_rope = false,
      .names = LlamaNames(),
      .gguf = {.architecture = "gemma", .norms_have_one = true},
      .read = ReadGemmaItself,
  };
}

}  // namespace moonring::model
