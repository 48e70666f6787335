// gpt-oss (OpenAI 2025, arXiv:2508.10925): mixtures of experts with biases and a clamped product in
// every layer, all experts stacked in one tensor; attention with sinks, and a window in every other
// layer. Published files have the experts in four bits (files/mxfp4.h): they are trained and saved
// as bf16.

#include "model/families/families.h"

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/config/rotary_config.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

// Sets the rope scaling that Transformers uses if config.json has none.
absl::Status ScaleRopeOfGptOss(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json scaling = {
      {"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
      {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  return ReadRopeScaling(JsonFields(scaling, fields.where()), fields, config, config.rotaries[0]);
}

absl::Status ReadGptOss(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, fields.Bool("attention_bias", true));
  config.output_bias = config.qkv_bias;
  if (!fields.Has("rope_scaling") && !fields.Has("rope_parameters"))
    RETURN_IF_ERROR(ScaleRopeOfGptOss(fields, config));
  ASSIGN_OR_RETURN(const int64_t window, ReadSize(fields, "sliding_window", 128));
  RETURN_IF_ERROR(ReadLayerTypes(
      fields, window, [](const JsonFields&, int64_t layer) { return layer % 2 == 0; }, config));
  ExpertRule& experts = config.experts;
  const char* count =
      fields.Find("num_local_experts") == nullptr ? "num_experts" : "num_local_experts";
  ASSIGN_OR_RETURN(experts.count, ReadSize(fields, count, 128));
  ASSIGN_OR_RETURN(experts.chosen, ReadSize(fields, "num_experts_per_tok", 4));
  experts.intermediate = config.intermediate_size;
  // A softmax over the chosen logits equals the chosen probabilities divided by their sum.
  experts.normalised = true;
  experts.storage = ExpertStorage::kTransposed;
  experts.bias = true;
  ASSIGN_OR_RETURN(experts.clamped.limit, ReadPositive(fields, "swiglu_limit", 7.0));
  ASSIGN_OR_RETURN(experts.clamped.slope, ReadPositive(fields, "swiglu_alpha", 1.702));
  for (LayerRule& layer : config.layer_rules) layer.experts = true;
  return absl::OkStatus();
}

WeightNames NamesOfGptOss() {
  WeightNames names = LlamaNames();
  for (const BlockWeight dense : {kGate, kUp, kDown}) names.in_block[dense].clear();
  names.in_block[kSinks] = "self_attn.sinks";
  names.in_block[kRouter] = "mlp.router";
  names.in_block[kExpertsGateUp] = "mlp.experts.gate_up_proj";
  names.in_block[kExpertsGateUpBias] = "mlp.experts.gate_up_proj_bias";
  names.in_block[kExpertsDown] = "mlp.experts.down_proj";
  names.in_block[kExpertsDownBias] = "mlp.experts.down_proj_bias";
  return names;
}

}  // namespace

Family GptOss() {
  return {
      .title = "gpt-oss",
      .architecture = "GptOssForCausalLM",
      .model_type = "gpt_oss",
      .kv_heads = 8,
      .head_dim = 64,
      .rms_norm_eps = 1e-5,
      .rope_theta = 150000.0,
      .max_position_embeddings = 131072,
      .scaled_by_default = true,
      .linear_router = false,
      .mxfp4 = true,
      .names = NamesOfGptOss(),
      .gguf = {.architecture = "gpt-oss", .norm_follows_attention = true},
      .read = ReadGptOss,
  };
}

}  // namespace moonring::model
