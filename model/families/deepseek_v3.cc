// DeepSeek-V3 and R1 (arXiv:2412.19437), Kimi-K2, Moonlight: latent attention; mixtures of experts
// after some dense layers. The multi-token prediction layer of published files is skipped, as in
// Transformers.

#include "absl/algorithm/container.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"
#include "model/families/latent_config.h"

namespace moonring::model {

namespace {

absl::Status ReadDeepseekV3(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadLatent(fields,
                             {.query_rank = 1536,
                              .key_value_rank = 512,
                              .plain_dim = 128,
                              .rotary_dim = 64,
                              .value_dim = 128},
                             /*turns=*/true, config));
  RETURN_IF_ERROR(ReadGroupedExperts(fields,
                                     {.count = 256,
                                      .chosen = 8,
                                      .intermediate = 2048,
                                      .groups = 8,
                                      .chosen_groups = 4,
                                      .scale = 2.5,
                                      .dense_layers = 3},
                                     config));
  // A file whose layers are all dense may still have the sizes of experts.
  if (absl::c_none_of(config.layer_rules, [](const LayerRule& layer) { return layer.experts; }))
    config.experts = {};
  return absl::OkStatus();
}

WeightNames NamesOfDeepseekV3() {
  WeightNames names = LlamaNames();
  AddLatentNames(names);
  AddGroupedExpertNames(names);
  return names;
}

}  // namespace

void AddLatentNames(WeightNames& names) {
  for (const BlockWeight whole : {kKey, kValue}) names.in_block[whole].clear();
  names.in_block[kQueryDown] = "self_attn.q_a_proj";
  names.in_block[kQueryDownNorm] = "self_attn.q_a_layernorm";
  names.in_block[kQueryUp] = "self_attn.q_b_proj";
  names.in_block[kKeyValueDown] = "self_attn.kv_a_proj_with_mqa";
  names.in_block[kKeyValueDownNorm] = "self_attn.kv_a_layernorm";
  names.in_block[kKeyValueUp] = "self_attn.kv_b_proj";
}

Family DeepseekV3() {
  return {
      .title = "DeepSeek-V3 and R1, Kimi-K2, Moonlight",
      .architecture = "DeepseekV3ForCausalLM",
      .model_type = "deepseek_v3",
      .other_model_type = "kimi_k2",
      .head_dim = 64,
      .max_position_embeddings = 4096,
      .linear_router = false,
      .names = NamesOfDeepseekV3(),
      .gguf = {.architecture = "deepseek2"},
      .read = ReadDeepseekV3,
  };
}

}  // namespace moonring::model
