// OLMo hybrid: three of four layers are linear attention with norms before it and before the MLP;
// the fourth is OLMo 3's softmax attention, with norms after attention and MLP. The published model
// has no rotary embedding.

#include <algorithm>

#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"
#include "model/mixers/mixers.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

// Whether the model has rotary embedding. It has none if rope_theta in rope_parameters is null; if
// rope_parameters lacks the key, rope_theta at the top level decides in the same way.
bool Turns(const JsonFields& fields) {
  const nlohmann::json* parameters = fields.Find("rope_parameters");
  if (parameters != nullptr && parameters->is_object() && parameters->contains("rope_theta"))
    return !(*parameters)["rope_theta"].is_null();
  return !fields.Has("rope_theta") || fields.Find("rope_theta") != nullptr;
}

absl::Status ReadOlmoHybrid(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadOlmo2(fields, config));
  ASSIGN_OR_RETURN(const int64_t key_heads, ReadSize(fields, "linear_num_key_heads", config.heads));
  const int64_t three_quarters = 3 * config.hidden_size / (4 * key_heads);
  ASSIGN_OR_RETURN(const int64_t key_dim,
                   ReadSize(fields, "linear_key_head_dim", std::max<int64_t>(1, three_quarters)));
  RETURN_IF_ERROR(ReadDeltaRule(fields, {key_heads, config.heads, key_dim, 2 * key_dim}, config));
  config.delta.norm_eps = 1e-5;
  ASSIGN_OR_RETURN(const bool negative, fields.Bool("linear_allow_neg_eigval", true));
  config.delta.beta_scale = negative ? 2.0 : 1.0;
  RETURN_IF_ERROR(ReadMixers(
      fields, kGatedDelta,
      [last = config.layers - 1](int64_t layer) {
        return layer % 4 == 3 || (layer == last && last < 3);
      },
      config));
  if (Turns(fields)) return absl::OkStatus();
  for (LayerRule& layer : config.layer_rules) layer.rotary = -1;
  return absl::OkStatus();
}

WeightNames NamesOfOlmoHybrid(WeightNames names) {
  names.in_layers_of[&kGatedDelta] = {{kInputNorm, "attention_layer_norm"},
                                      {kAttentionNorm, ""},
                                      {kMlpInputNorm, "feedforward_layer_norm"},
                                      {kMlpNorm, ""}};
  names.in_block[kDeltaQuery] = "linear_attn.q_proj";
  names.in_block[kDeltaKey] = "linear_attn.k_proj";
  names.in_block[kDeltaValue] = "linear_attn.v_proj";
  names.in_block[kDeltaGate] = "linear_attn.g_proj";
  names.in_block[kDeltaBeta] = "linear_attn.b_proj";
  names.in_block[kDeltaDecay] = "linear_attn.a_proj";
  names.in_block[kDeltaQueryFilter] = "linear_attn.q_conv1d";
  names.in_block[kDeltaKeyFilter] = "linear_attn.k_conv1d";
  names.in_block[kDeltaValueFilter] = "linear_attn.v_conv1d";
  names.in_block[kDeltaDecayLog] = "linear_attn.A_log";
  names.in_block[kDeltaDecayShift] = "linear_attn.dt_bias";
  names.in_block[kDeltaNorm] = "linear_attn.o_norm";
  names.in_block[kDeltaOutput] = "linear_attn.o_proj";
  return names;
}

}  // namespace

Family OlmoHybrid() {
  Family family = Olmo2();
  family.title = "OLMo hybrid";
  family.architecture = "OlmoHybridForCausalLM";
  family.model_type = "olmo_hybrid";
  family.rms_norm_eps = 1e-6;
  family.max_position_embeddings = 65536;
  family.pad_token_id = 100277;
  family.newer = true;
  family.resaved_modules = {{".post_attention_layernorm.", ".feedforward_layer_norm."}};
  family.names = NamesOfOlmoHybrid(family.names);
  family.gguf = {};
  family.read = ReadOlmoHybrid;
  family.fresh = {.least_rate = {"linear_a_log_min", 0.0},
                  .most_rate = {"linear_a_log_max", 16.0},
                  .draws_step = true,
                  .least_step = {"linear_dt_min", 1e-3},
                  .most_step = {"linear_dt_max", 0.1},
                  .step_floor = {"linear_dt_init_floor", 1e-4}};
  return family;
}

}  // namespace moonring::model
