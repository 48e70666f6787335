// Granite 4: most layers are a state space model (Mamba-2), the rest softmax attention, without
// rotary embedding in the published models; a dense MLP in every layer, in the larger models in
// parallel to a mixture of experts; Granite 3's scale factors.

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/config/config_fields.h"
#include "model/families/families.h"
#include "model/mixers/mixers.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

namespace {

// Reads a bound of the state space model's step t: a number, or infinity as Transformers 5 writes
// it.
bool ReadBound(const nlohmann::json& json, double& bound) {
  if (json.is_number()) bound = json.get<double>();
  if (json.is_object() && json.size() == 1 && json.value("__float__", "") == "Infinity")
    bound = std::numeric_limits<double>::infinity();
  else if (!json.is_number()) return false;
  return !std::isnan(bound);
}

absl::Status ReadStepLimit(const JsonFields& fields, StateSpaceRule& space) {
  const nlohmann::json* limit = fields.Find("time_step_limit");
  if (limit == nullptr) return absl::OkStatus();
  if (limit->is_array() && limit->size() == 2 && ReadBound((*limit)[0], space.least_step) &&
      ReadBound((*limit)[1], space.most_step) && space.least_step <= space.most_step)
    return absl::OkStatus();
  return fields.Wrong("time_step_limit", "a list of two numbers, the least first");
}

absl::Status ReadStateSpaceOfGraniteHybrid(const JsonFields& fields, ModelConfig& config) {
  StateSpaceRule& space = config.state_space;
  ASSIGN_OR_RETURN(space.heads, ReadSize(fields, "mamba_n_heads", 128));
  ASSIGN_OR_RETURN(space.groups, ReadSize(fields, "mamba_n_groups", 1));
  ASSIGN_OR_RETURN(space.states, ReadSize(fields, "mamba_d_state", 256));
  ASSIGN_OR_RETURN(space.taps, ReadSize(fields, "mamba_d_conv", 4, kMostTaps));
  ASSIGN_OR_RETURN(space.filter_bias, fields.Bool("mamba_conv_bias", true));
  ASSIGN_OR_RETURN(space.map_bias, fields.Bool("mamba_proj_bias", false));
  ASSIGN_OR_RETURN(const int64_t expand, ReadSize(fields, "mamba_expand", 2));
  if (expand > kLargestSize / 8 / config.hidden_size)
    return fields.Wrong("mamba_expand", "a factor that leaves hidden_size x it below 2^28");
  const int64_t width = expand * config.hidden_size;
  if (width % space.heads != 0) {
    return fields.Wrong("mamba_n_heads",
                        absl::StrCat("a divisor of mamba_expand x hidden_size, ", width));
  }
  const nlohmann::json* dim = fields.Find("mamba_d_head");
  space.head_dim = width / space.heads;
  if (dim != nullptr && *dim != "auto" && *dim != space.head_dim) {
    return fields.Wrong("mamba_d_head", absl::StrCat("mamba_expand x hidden_size / mamba_n_heads, ",
                                                     space.head_dim));
  }
  if (space.heads % space.groups != 0)
    return fields.Wrong("mamba_n_groups", absl::StrCat("a divisor of mamba_n_heads ", space.heads));
  if (space.states > kLargestSize / 8 / space.groups)
    return fields.Wrong("mamba_d_state", "groups x states below 2^28");
  space.norm_eps = config.rms_norm_eps;
  RETURN_IF_ERROR(ReadStepLimit(fields, space));
  return CheckDeltaActivation(fields, config);
}

// Reads layer_types: "mamba" and "attention", or the names that Transformers 5 uses in all
// families. If the key is missing, no layer has attention.
absl::Status ReadLayersOfGraniteHybrid(const JsonFields& fields, ModelConfig& config) {
  nlohmann::json renamed = nlohmann::json::object();
  if (const nlohmann::json* types = fields.Find("layer_types"); types != nullptr) {
    renamed["layer_types"] = *types;
    if (types->is_array()) {
      for (nlohmann::json& type : renamed["layer_types"]) {
        for (const auto& [newer, older] : config.family->older_layer_types)
          if (type == older) type = newer;
      }
    }
  }
  RETURN_IF_ERROR(ReadMixers(
      JsonFields(renamed, fields.where()), kStateSpace, [](int64_t) { return false; }, config));
  ASSIGN_OR_RETURN(const std::string positions, fields.String("position_embedding_type", ""));
  for (LayerRule& layer : config.layer_rules) {
    if (positions != "rope") layer.rotary = -1;
  }
  return absl::OkStatus();
}

// Reads the MLPs. intermediate_size is the size of one expert; if num_local_experts is 0, there are
// no experts.
absl::Status ReadMlps(const JsonFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> count, fields.OptionalInt("num_local_experts"));
  if (count.value_or(8) != 0) {
    ExpertRule& experts = config.experts;
    ASSIGN_OR_RETURN(experts.count, ReadSize(fields, "num_local_experts", 8));
    ASSIGN_OR_RETURN(experts.chosen, ReadSize(fields, "num_experts_per_tok", 2));
    experts.intermediate = config.intermediate_size;
    experts.normalised = true;
    experts.storage = ExpertStorage::kStacked;
    experts.beside_dense = true;
  }
  ASSIGN_OR_RETURN(config.intermediate_size, ReadSize(fields, "shared_intermediate_size", 1024));
  for (LayerRule& layer : config.layer_rules) {
    layer.intermediate_size = config.intermediate_size;
    layer.experts = config.experts.count > 0;
  }
  return absl::OkStatus();
}

absl::Status ReadGraniteHybrid(const JsonFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(ReadGranite(fields, config));
  RETURN_IF_ERROR(ReadStateSpaceOfGraniteHybrid(fields, config));
  RETURN_IF_ERROR(ReadLayersOfGraniteHybrid(fields, config));
  return ReadMlps(fields, config);
}

WeightNames NamesOfGraniteHybrid() {
  WeightNames names = LlamaNames();
  for (const BlockWeight apart : {kGate, kUp}) names.in_block[apart].clear();
  names.in_block[kGateUp] = "shared_mlp.input_linear";
  names.in_block[kDown] = "shared_mlp.output_linear";
  names.in_block[kRouter] = "block_sparse_moe.router.layer";
  names.in_block[kExpertsGateUp] = "block_sparse_moe.input_linear.weight";
  names.in_block[kExpertsDown] = "block_sparse_moe.output_linear.weight";
  names.in_block[kStateInput] = "mamba.in_proj";
  names.in_block[kStateFilter] = "mamba.conv1d";
  names.in_block[kStateDecayLog] = "mamba.A_log";
  names.in_block[kStateStepShift] = "mamba.dt_bias";
  names.in_block[kStateSkip] = "mamba.D";
  names.in_block[kStateNorm] = "mamba.norm";
  names.in_block[kStateOutput] = "mamba.out_proj";
  return names;
}

}  // namespace

Family GraniteHybrid() {
  return {
      .title = "Granite 4",
      .architecture = "GraniteMoeHybridForCausalLM",
      .model_type = "granitemoehybrid",
      .linear_router = false,
      .older_layer_types = {{"linear_attention", "mamba"}, {"full_attention", "attention"}},
      .names = NamesOfGraniteHybrid(),
      .read = ReadGraniteHybrid,
  };
}

}  // namespace moonring::model
