// Nemotron-H, Nemotron Nano 2 and 3, Nemotron 3 Super: each layer is, after one norm, only a state
// space model (Mamba-2), only softmax attention without rotary embedding, only an MLP or only a
// mixture of experts. MLPs have no gate; their activation is the squared ReLU. The experts' input
// may be a linear map of the stream to fewer features. Multi-token prediction layers ("mtp.") are
// skipped, as in Transformers.

#include <cmath>
#include <iterator>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"
#include "model/mixers/mixers.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

struct LayerKind {
  const char *name, *older;  // name in Transformers 5's lists, and in older ones
  const char* letter;        // letter in hybrid_override_pattern
  const Mixer* mixer;        // null: none
  bool mlp, experts;
};

constexpr LayerKind kKinds[] = {
    {"linear_attention", "mamba", "M", &kStateSpace, false, false},
    {"full_attention", "attention", "*", &kSoftmaxAttention, false, false},
    {"mlp", "mlp", "-", nullptr, true, false},
    {"moe", "moe", "E", nullptr, true, true},
};

// Reads the layers from a list or string with one item per layer (Family::layer_keys).
absl::Status ReadLayersOfNemotronH(const JsonFields& fields, ModelConfig& config) {
  const auto& keys = config.family->layer_keys;
  const char* key =
      *absl::c_find_if(keys, [&](const char* each) { return fields.Find(each) != nullptr; });
  const nlohmann::json& layers = *fields.Find(key);
  for (int64_t i = 0; i < config.layers; ++i) {
    const nlohmann::json item =
        layers.is_string() ? nlohmann::json(layers.get<std::string>().substr(i, 1)) : layers[i];
    const auto kind = absl::c_find_if(kKinds, [&](const LayerKind& each) {
      return layers.is_string() ? item == each.letter : item == each.name || item == each.older;
    });
    if (kind == std::end(kKinds)) {
      return absl::UnimplementedError(absl::StrCat(
          fields.where(), ": ", key, ": layer ", i, " is ", ShownJson(item),
          ", which is not supported (linear_attention, full_attention, mlp and moe are; in a "
          "pattern M, *, - and E)"));
    }
    LayerRule& layer = config.layer_rules[i];
    layer.mixer = kind->mixer;
    layer.mlp = kind->mlp;
    layer.experts = kind->experts;
    layer.rotary = -1;
  }
  return absl::OkStatus();
}

// Returns `first` if the file has that key, else `other`: the precedence of Transformers.
const char* Either(const JsonFields& fields, const char* first, const char* other) {
  return fields.Find(first) != nullptr ? first : other;
}

// Transformers 5 bounds the step by time_step_min and ignores time_step_limit.
absl::Status ReadStateSpaceOfNemotronH(const JsonFields& fields, ModelConfig& config) {
  StateSpaceRule& space = config.state_space;
  ASSIGN_OR_RETURN(space.heads, ReadSize(fields, "mamba_num_heads", 128));
  ASSIGN_OR_RETURN(space.head_dim, ReadSize(fields, "mamba_head_dim", 64));
  const char* groups = Either(fields, "mamba_n_groups", "n_groups");
  ASSIGN_OR_RETURN(space.groups, ReadSize(fields, groups, 8));
  ASSIGN_OR_RETURN(space.states, ReadSize(fields, "ssm_state_size", 128));
  ASSIGN_OR_RETURN(space.taps,
                   ReadSize(fields, Either(fields, "mamba_d_conv", "conv_kernel"), 4, kMostTaps));
  ASSIGN_OR_RETURN(space.filter_bias,
                   fields.Bool(Either(fields, "mamba_conv_bias", "use_conv_bias"), true));
  ASSIGN_OR_RETURN(space.map_bias, fields.Bool("use_bias", false));
  const char* least = Either(fields, "mamba_dt_min", "time_step_min");
  ASSIGN_OR_RETURN(space.least_step, fields.Number(least, 0.001));
  if (!(space.least_step >= 0) || std::isinf(space.least_step))
    return fields.Wrong(least, "a finite number, 0 or more");
  if (space.head_dim > kLargestSize / 8 / space.heads)
    return fields.Wrong("mamba_head_dim", "mamba_num_heads x mamba_head_dim below 2^28");
  if (space.heads % space.groups != 0)
    return fields.Wrong(groups, absl::StrCat("a divisor of mamba_num_heads ", space.heads));
  if (space.states > kLargestSize / 8 / space.groups)
    return fields.Wrong("ssm_state_size", "groups x states below 2^28");
  space.norm_eps = config.rms_norm_eps;
  ASSIGN_OR_RETURN(const std::string activation, fields.String("mamba_hidden_act", "silu"));
  if (activation != "silu" && activation != "swish")
    return fields.Wrong("mamba_hidden_act", "silu, which comes after the convolution");
  return absl::OkStatus();
}

// Reads the mixtures of experts. They have one shared expert of moe_shared_expert_intermediate_size
// features, whatever n_shared_experts says.
absl::Status ReadMixture(const JsonFields& fields, ModelConfig& config) {
  const std::vector<LayerRule> layers = config.layer_rules;
  RETURN_IF_ERROR(ReadGroupedExperts(fields,
                                     {.count = 8,
                                      .chosen = 2,
                                      .intermediate = 7688,
                                      .groups = 1,
                                      .chosen_groups = 1,
                                      .scale = 1.0,
                                      .dense_layers = 0},
                                     config));
  config.layer_rules = layers;
  ASSIGN_OR_RETURN(config.experts.shared,
                   ReadSize(fields, "moe_shared_expert_intermediate_size", 7688));
  if (fields.Find("moe_latent_size") != nullptr) {
    ASSIGN_OR_RETURN(config.experts.width, ReadSize(fields, "moe_latent_size", std::nullopt));
  }
  if (!config.mlp_bias) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      fields.where(), ": mlp_bias: a mixture whose maps have biases is not supported"));
}

absl::Status ReadNemotronH(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool biased, fields.Bool("attention_bias", false));
  if (biased) return fields.Wrong("attention_bias", "false: Transformers' attention has none");
  RETURN_IF_ERROR(ReadActivation(fields, "mlp_hidden_act", "relu2", config));
  ASSIGN_OR_RETURN(config.mlp_bias, fields.Bool("mlp_bias", false));
  RETURN_IF_ERROR(ReadLayersOfNemotronH(fields, config));
  RETURN_IF_ERROR(ReadStateSpaceOfNemotronH(fields, config));
  if (absl::c_none_of(config.layer_rules, [](const LayerRule& layer) { return layer.experts; }))
    return absl::OkStatus();
  return ReadMixture(fields, config);
}

WeightNames NamesOfNemotronH() {
  WeightNames names;
  names.embedding = "model.embeddings";
  names.norm = "model.norm_f";
  names.in_block[kInputNorm] = names.in_block[kMlpInputNorm] = "norm";
  names.in_block[kQuery] = "mixer.q_proj";
  names.in_block[kKey] = "mixer.k_proj";
  names.in_block[kValue] = "mixer.v_proj";
  names.in_block[kOutput] = "mixer.o_proj";
  names.in_block[kStateInput] = "mixer.in_proj";
  names.in_block[kStateFilter] = "mixer.conv1d";
  names.in_block[kStateDecayLog] = "mixer.A_log";
  names.in_block[kStateStepShift] = "mixer.dt_bias";
  names.in_block[kStateSkip] = "mixer.D";
  names.in_block[kStateNorm] = "mixer.norm";
  names.in_block[kStateOutput] = "mixer.out_proj";
  names.in_block[kGate] = "mixer.up_proj";
  names.in_block[kDown] = "mixer.down_proj";
  names.in_block[kRouter] = "mixer.gate";
  names.in_block[kRouterCorrection] = "mixer.gate.e_score_correction_bias";
  names.in_block[kExpertsInput] = "mixer.fc1_latent_proj";
  names.in_block[kExpertsOutput] = "mixer.fc2_latent_proj";
  names.in_block[kSharedGate] = "mixer.shared_experts.up_proj";
  names.in_block[kSharedDown] = "mixer.shared_experts.down_proj";
  names.expert = "mixer.experts.%d.";
  names.in_expert = {"up_proj", "", "down_proj"};
  return names;
}

}  // namespace

Family NemotronH() {
  return {
      .title = "Nemotron-H, Nemotron 3",
      .architecture = "NemotronHForCausalLM",
      .model_type = "nemotron_h",
      .kv_heads = 8,
      .head_dim = 128,
      .rms_norm_eps = 1e-5,
      .max_position_embeddings = 4096,
      .pads_learn = true,
      .eps_key = "layer_norm_epsilon",
      .layer_keys = {"layers_block_type", "layer_types", "hybrid_override_pattern"},
      .newer = true,
      .scales_rope = false,
      .linear_router = false,
      .names = NamesOfNemotronH(),
      .stored_names = {{"model", "lm_head"}, {"backbone", "lm_head"}},
      .read = ReadNemotronH,
      .fresh = {.draws_step = true,
                .least_step = {"time_step_min", 1e-3},
                .most_step = {"time_step_max", 0.1},
                .step_floor = {"time_step_floor", 1e-4},
                .scales_output = true},
  };
}

}  // namespace moonring::model
