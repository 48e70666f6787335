// Seed-OSS: a Llama with biases on queries, keys and values and an independent head size.

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"

namespace moonring::model {

namespace {

absl::Status ReadSeedOss(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, fields.Bool("attention_bias", true));
  ASSIGN_OR_RETURN(config.output_bias, fields.Bool("attention_out_bias", false));
  ASSIGN_OR_RETURN(config.mlp_bias, fields.Bool("mlp_bias", false));
  return absl::OkStatus();
}

}  // namespace

Family SeedOss() {
  return {
      .title = "Seed-OSS",
      .architecture = "SeedOssForCausalLM",
      .model_type = "seed_oss",
      .kv_heads = 8,
      .head_dim = 128,
      .max_position_embeddings = 524288,
      .pad_token_id = 1,
      .names = LlamaNames(),
      .read = ReadSeedOss,
  };
}

}  // namespace moonring::model
