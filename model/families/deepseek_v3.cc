// DeepSeek-V3 and R1 (arXiv:2412.19437), Kimi-K2, Moonlight: latent attention; mixtures of experts
// after some dense layers. What a published file has besides, a layer that predicts a second token,
// Transformers leaves out too.

#include "absl/strings/str_cat.h"
#include "comm/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/config/latent_config.h"
#include "model/families/families.h"

namespace moonring::model {

namespace {

absl::Status Read(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadLatent(fields,
                             {.query_rank = 1536,
                              .key_value_rank = 512,
                              .plain_dim = 128,
                              .rotary_dim = 64,
                              .value_dim = 128},
                             /*turns=*/true, config));
  return absl::OkStatus();
}

WeightNames Names() {
  WeightNames names = LlamaNames();
  for (const BlockWeight whole : {kKey, kValue}) names.in_block[whole].clear();
  names.in_block[kQueryDown] = "self_attn.q_a_proj";
  names.in_block[kQueryDownNorm] = "self_attn.q_a_layernorm";
  names.in_block[kQueryUp] = "self_attn.q_b_proj";
  names.in_block[kKeyValueDown] = "self_attn.kv_a_proj_with_mqa";
  names.in_block[kKeyValueDownNorm] = "self_attn.kv_a_layernorm";
  names.in_block[kKeyValueUp] = "self_attn.kv_b_proj";
  return names;
}

}  // namespace

Family DeepseekV3() {
  return {
      .title = "DeepSeek-V3 and R1, Kimi-K2, Moonlight",
      .architecture = "DeepseekV3ForCausalLM",
      .model_type = "deepseek_v3",
      .other_model_type = "kimi_k2",
      .head_dim = 64,
      .max_position_embeddings = 4096,
      .names = Names(),
      .read = Read,
  };
}

}  // namespace moonring::model
