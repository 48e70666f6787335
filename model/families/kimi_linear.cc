// Kimi Linear (Kimi team 2025, arXiv:2510.26692): three of four layers are linear attention with
// one decay per key channel (Kimi Delta Attention), the fourth is latent attention without rotary
// embedding; mixtures of experts routed as in DeepSeek-V3, after a dense layer.

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"
#include "model/families/latent_config.h"
#include "model/mixers/mixers.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

// Reads a list of layer numbers, counted from 1, and sets the mixer of these layers. `named` marks
// layers that occurred in a list: a layer may occur only once in all lists.
absl::Status ReadNumbered(const JsonFields& fields, const char* key, const Mixer& mixer,
                          std::vector<bool>& named, ModelConfig& config) {
  const auto layers = static_cast<int64_t>(named.size());
  const absl::Status wrong =
      fields.Wrong(key, absl::StrCat("a list of layers from 1 to ", layers,
                                     ", each in one of kda_layers and full_attn_layers"));
  const nlohmann::json* list = fields.Find(key);
  if (!list->is_array()) return wrong;
  for (const nlohmann::json& layer : *list) {
    if (!layer.is_number_unsigned() || layer.get<uint64_t>() < 1 ||
        layer.get<uint64_t>() > static_cast<uint64_t>(layers))
      return wrong;
    const int64_t place = layer.get<int64_t>() - 1;
    if (named[place]) return wrong;
    named[place] = true;
    config.layer_rules[place].mixer = &mixer;
  }
  return absl::OkStatus();
}

// Reads the mixers of all layers: from layer_types, which Transformers 5 writes, or else from the
// two lists in linear_attn_config. If the file has neither, layers 4, 8, 12 and so on (counted from
// 0) have softmax attention.
absl::Status ReadLayersOfKimiLinear(const JsonFields& fields, const JsonFields& linear,
                                    ModelConfig& config) {
  const bool lists =
      linear.Find("kda_layers") != nullptr && linear.Find("full_attn_layers") != nullptr;
  if (fields.Find("layer_types") != nullptr || !lists) {
    return ReadMixers(
        fields, kGatedDelta, [](int64_t layer) { return layer > 0 && layer % 4 == 0; }, config);
  }
  std::vector<bool> named(config.layers, false);
  RETURN_IF_ERROR(ReadNumbered(linear, "full_attn_layers", kLatentAttention, named, config));
  RETURN_IF_ERROR(ReadNumbered(linear, "kda_layers", kGatedDelta, named, config));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (named[layer]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(linear.where(), ": layer ", layer + 1,
                     " is in neither kda_layers nor full_attn_layers, expected each in one"));
  }
  return absl::OkStatus();
}

absl::Status ReadRule(const JsonFields& fields, const JsonFields& linear, ModelConfig& config) {
  // If a file has both keys, the one in linear_attn_config is used.
  const auto size = [&](const char* key, const char* outer, int64_t otherwise, int64_t most) {
    return linear.Find(key) != nullptr ? ReadSize(linear, key, otherwise, most)
                                       : ReadSize(fields, outer, otherwise, most);
  };
  DeltaRule& rule = config.delta;
  ASSIGN_OR_RETURN(const int64_t heads, size("num_heads", "linear_num_heads", 32, kLargestSize));
  ASSIGN_OR_RETURN(const int64_t width, size("head_dim", "linear_head_dim", 128, kLargestSize));
  ASSIGN_OR_RETURN(rule.taps,
                   size("short_conv_kernel_size", "linear_conv_kernel_dim", 4, kMostTaps));
  if (heads > kLargestSize / 4 / width) {
    return absl::InvalidArgumentError(
        absl::StrCat(fields.where(),
                     ": linear attention's heads x features of a head: expected below 2^29, got ",
                     heads, " x ", width));
  }
  rule.key_heads = rule.value_heads = heads;
  rule.key_dim = rule.value_dim = rule.rank = width;
  rule.norm_eps = config.rms_norm_eps;
  rule.by_channel = true;
  rule.gate = NormGate::kSigmoid;
  return CheckDeltaActivation(fields, config);
}

// Reads mlp_layer_types, which Transformers 5 writes and which takes precedence over
// first_k_dense_replace.
absl::Status ReadMlpTypes(const JsonFields& fields, ModelConfig& config) {
  const nlohmann::json* types = fields.Find("mlp_layer_types");
  if (types == nullptr) return absl::OkStatus();
  const absl::Status wrong = fields.Wrong(
      "mlp_layer_types",
      absl::StrCat("a list of ", config.layers, " names, each \"dense\" or \"sparse\""));
  if (!types->is_array() || static_cast<int64_t>(types->size()) != config.layers) return wrong;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const nlohmann::json& type = (*types)[layer];
    if (type != "dense" && type != "sparse") return wrong;
    config.layer_rules[layer].experts = type == "sparse";
  }
  return absl::OkStatus();
}

// Refuses options of the published code that Transformers does not have.
absl::Status RefuseOthers(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const bool still, fields.Bool("mla_use_nope", true));
  if (!still) return fields.Wrong("mla_use_nope", "true: its attention has no rotary embedding");
  ASSIGN_OR_RETURN(const std::string score, fields.String("moe_router_activation_func", "sigmoid"));
  if (score != "sigmoid") return fields.Wrong("moe_router_activation_func", "sigmoid");
  ASSIGN_OR_RETURN(const int64_t every, ReadSize(fields, "moe_layer_freq", 1));
  return every == 1 ? absl::OkStatus() : fields.Wrong("moe_layer_freq", "1");
}

absl::Status ReadKimiLinear(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseOthers(fields));
  const nlohmann::json* object = fields.Find("linear_attn_config");
  if (object != nullptr && !object->is_object())
    return fields.Wrong("linear_attn_config", "an object");
  const nlohmann::json none = nlohmann::json::object();
  const JsonFields linear(object == nullptr ? none : *object,
                          absl::StrCat(fields.where(), ": linear_attn_config"));
  RETURN_IF_ERROR(ReadLatent(fields,
                             {.query_rank = 0,
                              .key_value_rank = 512,
                              .plain_dim = 128,
                              .rotary_dim = 64,
                              .value_dim = 128},
                             /*turns=*/false, config));
  RETURN_IF_ERROR(ReadRule(fields, linear, config));
  RETURN_IF_ERROR(ReadLayersOfKimiLinear(fields, linear, config));
  RETURN_IF_ERROR(ReadGroupedExperts(fields,
                                     {.count = 256,
                                      .chosen = 8,
                                      .intermediate = 1024,
                                      .groups = 1,
                                      .chosen_groups = 1,
                                      .scale = 2.446,
                                      .dense_layers = 1},
                                     config));
  return ReadMlpTypes(fields, config);
}

WeightNames NamesOfKimiLinear() {
  WeightNames names = LlamaNames();
  AddLatentNames(names);
  AddGroupedExpertNames(names, "block_sparse_moe");
  names.in_expert = {"w1", "w3", "w2"};
  names.in_block[kDeltaQuery] = "self_attn.q_proj";
  names.in_block[kDeltaKey] = "self_attn.k_proj";
  names.in_block[kDeltaValue] = "self_attn.v_proj";
  names.in_block[kDeltaQueryFilter] = "self_attn.q_conv1d";
  names.in_block[kDeltaKeyFilter] = "self_attn.k_conv1d";
  names.in_block[kDeltaValueFilter] = "self_attn.v_conv1d";
  names.in_block[kDeltaDecayDown] = "self_attn.f_a_proj";
  names.in_block[kDeltaDecayUp] = "self_attn.f_b_proj";
  names.in_block[kDeltaDecayLog] = "self_attn.A_log";
  names.in_block[kDeltaDecayShift] = "self_attn.dt_bias";
  names.in_block[kDeltaBeta] = "self_attn.b_proj";
  names.in_block[kDeltaGateDown] = "self_attn.g_a_proj";
  names.in_block[kDeltaGateUp] = "self_attn.g_b_proj";
  names.in_block[kDeltaNorm] = "self_attn.o_norm";
  names.in_block[kDeltaOutput] = "self_attn.o_proj";
  return names;
}

}  // namespace

Family KimiLinear() {
  return {
      .title = "Kimi Linear",
      .architecture = "KimiLinearForCausalLM",
      .model_type = "kimi_linear",
      .head_dim = 64,
      .rms_norm_eps = 1e-5,
      .max_position_embeddings = 1048576,
      .pad_token_id = 163839,
      .context_key = "model_max_length",
      .expert_keys = {.count = "num_experts",
                      .chosen = "num_experts_per_token",
                      .shared = "num_shared_experts",
                      .groups = "num_expert_group",
                      .normalised = "moe_renormalize"},
      .newer = true,
      .linear_router = false,
      .resaved_modules = {{".mlp.", ".block_sparse_moe."}},
      .names = NamesOfKimiLinear(),
      .read = ReadKimiLinear,
      .fresh = {.least_rate = {"", 1.0}, .draws_step = true},
  };
}

}  // namespace moonring::model
