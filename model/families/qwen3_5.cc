// Qwen3.5, the text model: Qwen3-Next's layers with separate maps for queries, keys and values, for
// the gate, for beta and for the decay, and a dense MLP. Its rotary embedding interleaves three
// positions (time, height, width); for text they are equal, so it is the ordinary one. The larger
// models have Qwen3-Next's mixture of experts in every layer.

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"

namespace moonring::model {

namespace {

WeightNames NamesOfQwen35() {
  WeightNames names = Qwen3HybridNames();
  names.in_block[kDeltaQueryKeyValue] = "linear_attn.in_proj_qkv";
  names.in_block[kDeltaGate] = "linear_attn.in_proj_z";
  names.in_block[kDeltaBeta] = "linear_attn.in_proj_b";
  names.in_block[kDeltaDecay] = "linear_attn.in_proj_a";
  return names;
}

absl::Status ReadQwen35Moe(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadQwen3Hybrid(fields, config));
  ASSIGN_OR_RETURN(config.experts.shared, ReadSize(fields, "shared_expert_intermediate_size", 512));
  RETURN_IF_ERROR(ReadQwenExperts(fields, 256, 8, 512, config));
  config.experts.normalised = true;
  return absl::OkStatus();
}

}  // namespace

Family Qwen35Moe() {
  Family family = Qwen35();
  family.title = "Qwen3.5-MoE (text)";
  family.architecture = "Qwen3_5MoeForCausalLM";
  family.model_type = "qwen3_5_moe_text";
  family.kv_heads = 2;
  family.linear_router = false;
  family.intermediate_key = "moe_intermediate_size";  // no layer has a dense MLP
  family.names = WithQwenExperts(family.names);
  family.gguf.architecture = "qwen35moe";
  family.read = ReadQwen35Moe;
  return family;
}

Family Qwen35() {
  return {
      .title = "Qwen3.5 (text)",
      .architecture = "Qwen3_5ForCausalLM",
      .model_type = "qwen3_5_text",
      .kv_heads = 4,
      .head_dim = 256,
      .partial_rotary_factor = 0.25,
      .max_position_embeddings = 32768,
      .newer = true,
      .names = NamesOfQwen35(),
      .gguf = {.architecture = "qwen35",
               .norms_have_one = true,
               .norm_follows_attention = true,
               .tiled_values = true},
      .read = ReadQwen3Hybrid,
  };
}

}  // namespace moonring::model
