// Gemma 3, text models: Gemma 2 with normalised queries and keys instead of a softcap on scores,
// and a separate rotary embedding for the layers with a window.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/config/rotary_config.h"

namespace moonring::model {

namespace {

bool SlidesInGemma3(const JsonFields& fields, int64_t layer) {
  return (layer + 1) % *ReadSize(fields, "sliding_window_pattern", 6) != 0;
}

absl::Status ReadGemma3(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadGemma2(fields, config));
  config.noise_after_scale = true;
  config.score_softcap = 0.0;  // Transformers reads this key but does not use it
  config.head_norm = HeadNorm::kEachHead;
  ASSIGN_OR_RETURN(const bool bidirectional, fields.Bool("use_bidirectional_attention", false));
  if (bidirectional)
    return fields.Wrong("use_bidirectional_attention", "false: attention here is causal");
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", 4096));
  RETURN_IF_ERROR(ReadSize(fields, "sliding_window_pattern", 6).status());
  RETURN_IF_ERROR(ReadLayerTypes(fields, window, SlidesInGemma3, config));
  ASSIGN_OR_RETURN(const double theta, ReadPositive(fields, "rope_local_base_freq", 10000.0));
  return ReadWindowRotary(fields, theta, config);
}

WeightNames NamesOfGemma3() {
  WeightNames names = GemmaNames();
  names.in_block[kQueryNorm] = "self_attn.q_norm";
  names.in_block[kKeyNorm] = "self_attn.k_norm";
  return names;
}

}  // namespace

Family Gemma3() {
  return {
      .title = "Gemma 3 (text)",
      .architecture = "Gemma3ForCausalLM",
      .model_type = "gemma3_text",
      .kv_heads = 4,
      .head_dim = 256,
      .rope_theta = 1000000.0,
      .max_position_embeddings = 131072,
      .tied = true,
      .pad_token_id = 0,
      .names = NamesOfGemma3(),
      .gguf = {.architecture = "gemma3", .norms_have_one = true},
      .read = ReadGemma3,
  };
}

}  // namespace moonring::model
