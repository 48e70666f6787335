// Phi-3 and Phi-4: a Llama with queries, keys and values in one map, and gate and up in another;
// longrope.

#include "model/families/families.h"

#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

absl::Status ReadPhi3(const JsonFields& fields, ModelConfig& config) {
  return ReadWindow(fields, std::nullopt, config);
}

WeightNames NamesOfPhi3() {
  WeightNames names = LlamaNames();
  for (const BlockWeight fused : {kQuery, kKey, kValue, kGate, kUp}) names.in_block[fused].clear();
  names.in_block[kQueryKeyValue] = "self_attn.qkv_proj";
  names.in_block[kGateUp] = "mlp.gate_up_proj";
  return names;
}

}  // namespace

Family Phi3() {
  return {
      .title = "Phi-3, Phi-4",
      .architecture = "Phi3ForCausalLM",
      .model_type = "phi3",
      .rms_norm_eps = 1e-5,
      .max_position_embeddings = 4096,
      .original_max_position_embeddings = 4096,
      .pad_token_id = 32000,
      .names = NamesOfPhi3(),
      .gguf = {.architecture = "phi3"},
      .read = ReadPhi3,
  };
}

}  // namespace moonring::model
