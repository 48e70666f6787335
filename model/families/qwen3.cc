// Qwen3: no biases; queries and keys are normalised per head; head_dim is independent of
// hidden_size.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

absl::Status ReadQwen3(const JsonFields& fields, ModelConfig& config) {
  config.head_norm = HeadNorm::kEachHead;
  RETURN_IF_ERROR(ReadAttentionBias(fields, config));
  return ReadQwenWindow(fields, config);
}

}  // namespace

WeightNames Qwen3Names() {
  WeightNames names = LlamaNames();
  names.in_block[kQueryNorm] = "self_attn.q_norm";
  names.in_block[kKeyNorm] = "self_attn.k_norm";
  return names;
}

Family Qwen3() {
  return {
      .title = "Qwen3",
      .architecture = "Qwen3ForCausalLM",
      .model_type = "qwen3",
      .kv_heads = 32,
      .head_dim = 128,
      .max_position_embeddings = 32768,
      .names = Qwen3Names(),
      .gguf = {.architecture = "qwen3"},
      .read = ReadQwen3,
  };
}

}  // namespace moonring::model
