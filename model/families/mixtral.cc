// Mixtral (Jiang et al. 2024, arXiv:2401.04088): a Mistral whose MLP is a mixture of experts in
// every layer.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"

namespace moonring::model {

namespace {

absl::Status ReadMixtral(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadWindow(fields, std::nullopt, config));
  ASSIGN_OR_RETURN(config.experts.count, ReadSize(fields, "num_local_experts", 8));
  ASSIGN_OR_RETURN(config.experts.chosen, ReadSize(fields, "num_experts_per_tok", 2));
  config.experts.intermediate = config.intermediate_size;
  config.experts.normalised = true;
  for (LayerRule& layer : config.layer_rules) layer.experts = true;
  return absl::OkStatus();
}

WeightNames NamesOfMixtral() {
  WeightNames names = LlamaNames();
  for (const BlockWeight dense : {kGate, kUp, kDown}) names.in_block[dense].clear();
  names.in_block[kRouter] = "block_sparse_moe.gate";
  names.expert = "block_sparse_moe.experts.%d.";
  names.in_expert = {"w1", "w3", "w2"};
  return names;
}

}  // namespace

Family Mixtral() {
  return {
      .title = "Mixtral",
      .architecture = "MixtralForCausalLM",
      .model_type = "mixtral",
      .kv_heads = 8,
      .rms_norm_eps = 1e-5,
      .rope_theta = 1000000.0,
      .max_position_embeddings = 131072,
      .scales_rope = false,
      .names = NamesOfMixtral(),
      .gguf = {.architecture = "llama", .interleaved_heads = true},
      .read = ReadMixtral,
  };
}

}  // namespace moonring::model
