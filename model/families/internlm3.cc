// InternLM3: a Llama with biases. The config keys that enable the biases differ from those of
// Llama.

#include "model/families/families.h"

#include "base/status/status_macros.h"

namespace moonring::model {

namespace {

absl::Status ReadInternLm3(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, fields.Bool("qkv_bias", false));
  ASSIGN_OR_RETURN(config.output_bias, fields.Bool("bias", false));
  config.mlp_bias = config.output_bias;
  return absl::OkStatus();
}

}  // namespace

Family InternLm3() {
  return {
      .title = "InternLM3",
      .architecture = "InternLM3ForCausalLM",
      .model_type = "internlm3",
      .kv_heads = 2,
      .max_position_embeddings = 32768,
      .names = LlamaNames(),
      .read = ReadInternLm3,
  };
}

}  // namespace moonring::model
