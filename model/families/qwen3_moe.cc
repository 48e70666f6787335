// Qwen3-30B-A3B, Qwen3-235B-A22B: a Qwen3 whose MLP is a mixture of experts.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

absl::Status ReadQwen3Moe(const JsonFields& fields, ModelConfig& config) {
  config.head_norm = HeadNorm::kEachHead;
  RETURN_IF_ERROR(ReadAttentionBias(fields, config));
  ASSIGN_OR_RETURN(const bool used, fields.Bool("use_sliding_window", false));
  if (used) RETURN_IF_ERROR(ReadWindow(fields, 4096, config));
  return ReadQwenExperts(fields, 128, 8, 768, config);
}

}  // namespace

Family Qwen3Moe() {
  return {
      .title = "Qwen3-MoE",
      .architecture = "Qwen3MoeForCausalLM",
      .model_type = "qwen3_moe",
      .kv_heads = 4,
      .max_position_embeddings = 32768,
      .names = WithQwenExperts(Qwen3Names()),
      .gguf = {.architecture = "qwen3moe"},
      .read = ReadQwen3Moe,
  };
}

}  // namespace moonring::model
