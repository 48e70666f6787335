// Llama 2, 3 and 3.1 to 3.3, SmolLM2, Yi, DeepSeek's distilled Llamas: norms before attention and
// MLP, a gated MLP, no bias unless a key says so.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

absl::Status ReadLlama(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadAttentionBias(fields, config));
  ASSIGN_OR_RETURN(config.mlp_bias, fields.Bool("mlp_bias", false));
  return absl::OkStatus();
}

}  // namespace

WeightNames LlamaNames() {
  WeightNames names;
  names.in_block[kInputNorm] = "input_layernorm";
  names.in_block[kQuery] = "self_attn.q_proj";
  names.in_block[kKey] = "self_attn.k_proj";
  names.in_block[kValue] = "self_attn.v_proj";
  names.in_block[kOutput] = "self_attn.o_proj";
  names.in_block[kMlpInputNorm] = "post_attention_layernorm";
  names.in_block[kGate] = "mlp.gate_proj";
  names.in_block[kUp] = "mlp.up_proj";
  names.in_block[kDown] = "mlp.down_proj";
  return names;
}

Family Llama() {
  return {
      .title = "Llama 2 and 3, SmolLM2, Yi, DeepSeek-R1-Distill-Llama",
      .architecture = "LlamaForCausalLM",
      .model_type = "llama",
      .names = LlamaNames(),
      .gguf = {.architecture = "llama", .interleaved_heads = true},
      .read = ReadLlama,
  };
}

}  // namespace moonring::model
