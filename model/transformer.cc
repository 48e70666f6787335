#include "model/transformer.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"
#include "comm/torch_status.h"
#include "model/weights.h"

namespace moonring::model {
namespace {

constexpr absl::string_view kEmbedding = "model.embed_tokens.weight";
constexpr absl::string_view kNorm = "model.norm.weight";
constexpr absl::string_view kHead = "lm_head.weight";

// Published names inside a block, at their BlockWeight places.
constexpr absl::string_view kNamesInBlock[kBlockWeights] = {
    "input_layernorm.weight",  "self_attn.q_proj.weight", "self_attn.k_proj.weight",
    "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight",
    "mlp.gate_proj.weight",    "mlp.up_proj.weight",      "mlp.down_proj.weight",
    "self_attn.q_proj.bias",   "self_attn.k_proj.bias",   "self_attn.v_proj.bias",
    "self_attn.o_proj.bias",   "mlp.gate_proj.bias",      "mlp.up_proj.bias",
    "mlp.down_proj.bias",
};

// Norms are used in fp32, so a frozen model loses nothing only where it keeps them so. They are small.
at::ScalarType StoredDtype(const WeightShape& weight, const TransformerOptions& options) {
  const bool norm = weight.shape.size() == 1 && absl::EndsWith(weight.name, ".weight");
  return options.frozen && !norm ? options.matmul_dtype : options.weight_dtype;
}

absl::Status CheckDtypes(const TransformerOptions& options) {
  const at::ScalarType w = options.weight_dtype, m = options.matmul_dtype;
  if ((w == at::kFloat && (m == at::kFloat || m == at::kBFloat16)) || (w == m && (m == at::kBFloat16 || m == at::kDouble))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("weights in ", c10::toString(w), " with matmuls in ", c10::toString(m),
                                                 ", wanted Float/Float, Float/BFloat16, BFloat16/BFloat16 or Double/Double"));
}

using ParametersByName = absl::flat_hash_map<std::string, std::shared_ptr<comm::Parameter>>;

// The wanted parameters in their order. Every one given must be wanted, once.
absl::StatusOr<comm::Parameters> InOrder(const ModelConfig& config, const comm::Parameters& given) {
  ParametersByName by_name;
  for (const auto& parameter : given) {
    if (!by_name.emplace(parameter->name(), parameter).second) return absl::InvalidArgumentError(absl::StrCat(parameter->name(), ": given twice"));
  }
  comm::Parameters ordered;
  for (const WeightShape& wanted : WantedWeights(config)) {
    const auto found = by_name.find(wanted.name);
    if (found == by_name.end()) return absl::InvalidArgumentError(absl::StrCat(wanted.name, ": missing"));
    const at::IntArrayRef sizes = found->second->weight().sizes();
    if (sizes != at::IntArrayRef(wanted.shape)) {
      return absl::InvalidArgumentError(absl::StrCat(wanted.name, ": shape ", ShapeText({sizes.data(), sizes.size()}), ", wanted ", ShapeText(wanted.shape)));
    }
    ordered.push_back(std::move(found->second));
    by_name.erase(found);
  }
  if (!by_name.empty()) return absl::InvalidArgumentError(absl::StrCat(by_name.begin()->first, ": not a weight of this model"));
  return ordered;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Load(std::shared_ptr<Checkpoint> checkpoint, TransformerOptions options) {
  RETURN_IF_ERROR(CheckDtypes(options), "transformer");
  comm::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(checkpoint->config())) {
    ASSIGN_OR_RETURN(at::Tensor tensor, checkpoint->Load(weight.name, StoredDtype(weight, options)));
    RETURN_IF_ERROR(comm::TryTorch([&] { tensor = tensor.to(options.device); }), weight.name);
    parameters.push_back(std::make_shared<comm::Parameter>(weight.name, std::move(tensor)));
  }
  return Create(checkpoint->config(), std::move(parameters), options);
}

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(ModelConfig config, comm::Parameters parameters, TransformerOptions options) {
  RETURN_IF_ERROR(CheckDtypes(options), "transformer");
  ASSIGN_OR_RETURN(comm::Parameters ordered, InOrder(config, parameters), "transformer");
  return std::unique_ptr<Transformer>(new Transformer(std::move(config), std::move(ordered), options));
}

Transformer::Transformer(ModelConfig config, comm::Parameters parameters, TransformerOptions options)
    : config_(std::move(config)), options_(options), parameters_(std::move(parameters)) {
  shape_ = {config_.heads, config_.kv_heads, config_.head_dim, config_.rms_norm_eps, options_.matmul_dtype, config_.sliding_window};
  ParametersByName by_name;
  for (const auto& parameter : parameters_) {
    by_name.emplace(parameter->name(), parameter);
    if (options_.frozen) parameter->set_trainable(false);
  }
  const auto find = [&](absl::string_view name) {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  };
  embedding_ = find(kEmbedding);
  norm_ = find(kNorm);
  head_ = config_.tie_word_embeddings ? embedding_ : find(kHead);
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    std::vector<Loan>& loans = blocks_.emplace_back();
    for (int place = 0; place < kBlockWeights; ++place) {
      loans.push_back({find(absl::StrCat("model.layers.", layer, ".", kNamesInBlock[place])), WeightDtype(BlockWeight(place), options_.matmul_dtype)});
    }
  }
}

at::Tensor Transformer::Forward(const at::Tensor& ids_T, const at::Tensor& positions_T, std::shared_ptr<attention::PlannedAttention> attention) {
  TORCH_CHECK(ids_T.sizes() == positions_T.sizes(), "transformer: ids of shape ", ids_T.sizes(), ", positions of shape ", positions_T.sizes());
  const at::ScalarType stream = StreamDtype(options_.matmul_dtype);
  const Rotary rotary = MakeRotary(positions_T.to(options_.device), config_.head_dim, config_.rope_theta, stream);
  at::Tensor hidden_TD = LookUp(embedding_, ids_T.to(options_.device), {options_.matmul_dtype, stream, config_.pad_token_id});
  const BlockFunction block = [shape = shape_, rotary, attention = std::move(attention)](absl::Span<const at::Tensor> weights, const at::Tensor& hidden,
                                                                                         attention::KeptAttention* kept) {
    return TransformerBlock(shape, weights, hidden, rotary, *attention, kept);
  };
  for (const std::vector<Loan>& loans : blocks_) hidden_TD = RunBlock(block, loans, hidden_TD, options_.recompute);
  const BlockFunction norm = [eps = config_.rms_norm_eps, stream](absl::Span<const at::Tensor> weights, const at::Tensor& hidden, attention::KeptAttention*) {
    return RmsNorm(hidden, weights[0], eps, stream);
  };
  return RunBlock(norm, {{norm_, stream}}, hidden_TD, options_.recompute);
}

}  // namespace moonring::model
