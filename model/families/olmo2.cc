// OLMo 2: norms after attention and MLP, none before them; queries and keys are normalised over all
// heads together.

#include "model/families/families.h"

#include "model/config/config_fields.h"

namespace moonring::model {

absl::Status ReadOlmo2(const JsonFields& fields, ModelConfig& config) {
  config.head_norm = HeadNorm::kAllHeads;
  return ReadAttentionBias(fields, config);
}

namespace {

WeightNames NamesOfOlmo2() {
  WeightNames names = LlamaNames();
  names.in_block[kInputNorm].clear();
  names.in_block[kMlpInputNorm].clear();
  names.in_block[kAttentionNorm] = "post_attention_layernorm";
  names.in_block[kMlpNorm] = "post_feedforward_layernorm";
  names.in_block[kQueryNorm] = "self_attn.q_norm";
  names.in_block[kKeyNorm] = "self_attn.k_norm";
  return names;
}

}  // namespace

Family Olmo2() {
  return {
      .title = "OLMo 2",
      .architecture = "Olmo2ForCausalLM",
      .model_type = "olmo2",
      .rms_norm_eps = 1e-5,
      .pad_token_id = 1,
      .names = NamesOfOlmo2(),
      .gguf = {.architecture = "olmo2"},
      .read = ReadOlmo2,
  };
}

}  // namespace moonring::model
