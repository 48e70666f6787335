#include "model/transformer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "attention/hooks/hooked_attention.h"
#include "base/memory/heap.h"
#include "base/memory/memory_account.h"
#include "base/memory/to_device.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/text/ordered_json.h"
#include "comm/packed_home.h"
#include "kernels/random/counter_random.h"
#include "model/broken_weights.h"
#include "model/config/family.h"
#include "model/config/text_config.h"
#include "model/config/weights.h"
#include "model/expert_parts.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

bool Learns(const WeightShape& weight, const TransformerOptions& options) {
  return weight.learns && !options.frozen &&
         (!options.learning.has_value() || options.learning->contains(weight.name));
}

// The dtype that a weight is stored in. A frozen matrix is stored in the matmul dtype, which does
// not change results. Weights that are used in fp32 (fp64 for fp64), such as norms, are small and
// are stored in that dtype.
at::ScalarType HeldDtype(const WeightShape& weight, const TransformerOptions& options) {
  if (!weight.learns) return WideDtype(options.matmul_dtype);
  return !Learns(weight, options) && !weight.wide ? options.matmul_dtype : options.weight_dtype;
}

absl::Status CheckDtypes(const TransformerOptions& options) {
  const at::ScalarType w = options.weight_dtype, m = options.matmul_dtype;
  const at::ScalarType stream = options.stream_dtype.value_or(WideDtype(m));
  if (stream != WideDtype(m) && !(stream == at::kBFloat16 && m == at::kBFloat16)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a residual stream in ", c10::toString(stream), " with matmuls in ", c10::toString(m),
        ", expected ", c10::toString(WideDtype(m)), m == at::kBFloat16 ? " or BFloat16" : ""));
  }
  if ((w == at::kFloat && (m == at::kFloat || m == at::kBFloat16 || m == at::kHalf)) ||
      (w == m && (m == at::kBFloat16 || m == at::kDouble)))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("weights in ", c10::toString(w), " with matmuls in ", c10::toString(m),
                   ", expected Float/Float, Float/BFloat16, Float/Half, BFloat16/BFloat16 or "
                   "Double/Double"));
}

std::vector<at::Tensor> RunOrCompose(const BlockFunction& function, const std::vector<Loan>& loans,
                                     const BlockInputs& inputs, RunnerOptions runner,
                                     const GivenWeights* given) {
  if (given != nullptr) return ComposeBlock(function, loans, inputs, *given);
  return RunBlock(function, loans, inputs, std::move(runner));
}

at::Tensor LookUpOrCompose(const std::shared_ptr<base::Parameter>& embedding_VD,
                           const at::Tensor& ids_T, const LookUpOptions& options,
                           const GivenWeights* given) {
  if (given != nullptr) return ComposedLookUp(embedding_VD, ids_T, options, *given);
  return LookUp(embedding_VD, ids_T, options);
}

// Sorts the given parameters by the order of the config's weights. Fails unless each weight is
// given exactly once, and no other parameter is given.
absl::StatusOr<base::Parameters> InOrder(const ModelConfig& config, const base::Parameters& given) {
  absl::flat_hash_map<std::string, std::shared_ptr<base::Parameter>> by_name;
  for (const auto& parameter : given) {
    if (!by_name.emplace(parameter->name(), parameter).second)
      return absl::InvalidArgumentError(absl::StrCat(parameter->name(), ": given twice"));
  }
  base::Parameters ordered;
  for (const WeightShape& wanted : WantedWeights(config)) {
    const auto found = by_name.find(wanted.name);
    if (found == by_name.end())
      return absl::InvalidArgumentError(absl::StrCat(wanted.name, ": missing"));
    const at::IntArrayRef sizes = found->second->shape();
    if (sizes != at::IntArrayRef(wanted.shape)) {
      return absl::InvalidArgumentError(absl::StrCat(wanted.name, ": shape ",
                                                     ShapeText({sizes.data(), sizes.size()}),
                                                     ", expected ", ShapeText(wanted.shape)));
    }
    ordered.push_back(std::move(found->second));
    by_name.erase(found);
  }
  if (!by_name.empty())
    return absl::InvalidArgumentError(
        absl::StrCat(by_name.begin()->first, ": not a weight of this model"));
  return ordered;
}

// The config of the same model with an untied head; its config.json is changed too.
ModelConfig Untied(ModelConfig config) {
  base::OrderedJson json = base::OrderedJson::parse(config.json);
  json["tie_word_embeddings"] = false;
  TextConfigOf(*config.family, json)["tie_word_embeddings"] = false;
  config.json = json.dump(2);
  config.tie_word_embeddings = false;
  return config;
}

void CheckNoise(const Noise& noise, const at::Tensor& ids_T) {
  TORCH_CHECK(noise.identity_T.defined() && noise.identity_T.sizes() == ids_T.sizes(),
              "noise: identity of shape ",
              noise.identity_T.defined() ? noise.identity_T.sizes() : at::IntArrayRef(),
              ", expected that of the ids, ", ids_T.sizes());
  TORCH_CHECK(noise.neftune_alpha >= 0.0, "noise: neftune_alpha is ", noise.neftune_alpha,
              ", expected 0 or more");
  if (noise.neftune_alpha == 0.0) return;
  TORCH_CHECK(noise.lengths_T.defined() && noise.lengths_T.sizes() == ids_T.sizes(),
              "noise: NEFTune requires lengths of the shape of the ids, ", ids_T.sizes());
}

// NEFTune's noise, uniform in +-alpha / sqrt(L D), with L the document's length and D features.
at::Tensor EmbeddingNoise(const Noise& noise, const at::Tensor& hidden_TD) {
  at::NoGradGuard no_grad;
  const int64_t width = hidden_TD.size(1);
  const at::Tensor uniform_TD = kernels::CounterUniform(
      kernels::CounterKey(noise.seed, noise.step, "model.embed_tokens"), noise.identity_T, width);
  const at::Tensor lengths_T = base::ToDevice(noise.lengths_T, hidden_TD.device());
  const at::ScalarType wide = WideDtype(hidden_TD.scalar_type());
  const at::Tensor numbers_T = lengths_T.to(wide).mul_(static_cast<double>(width));
  return uniform_TD.to(wide)
      .mul_(2.0)
      .sub_(1.0)
      .mul_(numbers_T.rsqrt_().mul_(noise.neftune_alpha).unsqueeze(1))
      .to(hidden_TD.scalar_type());
}

// The embedding scale, rounded to the weights' dtype as Transformers does: sqrt(640) is 25.25 in
// bf16.
double RoundedScale(double scale, at::ScalarType dtype) {
  return at::tensor(scale, at::kDouble).to(dtype).to(at::kDouble).item<double>();
}

// Returns those of `loans` (weights that a block uses) that are offloaded or sharded and must be
// fetched before use.
std::vector<Loan> Away(const std::vector<Loan>& loans) {
  std::vector<Loan> away;
  for (const Loan& loan : loans) {
    if (loan.parameter != nullptr && loan.parameter->away()) away.push_back(loan);
  }
  return away;
}

// The result of reading a weight that is to be quantised: `parameter` has the quantised weight; or,
// if the packing only rounds (BasePacking::rounds_only), `rounded` has the rounded numbers in the
// dtype in which adapters are merged. Both are empty if the packing is "file" and the file does not
// store the weight quantised.
struct PackedLoad {
  std::shared_ptr<base::Parameter> parameter;
  at::Tensor rounded;
};

absl::StatusOr<PackedLoad> LoadPacked(const Checkpoint& checkpoint, const WeightShape& weight,
                                      const TransformerOptions& options) {
  PackedLoad load;
  ASSIGN_OR_RETURN(Packed packed, Pack(checkpoint, weight.name, *options.packing));
  if (packed.code == nullptr) return load;
  RETURN_IF_ERROR(base::TryTorch([&] {
                    if (options.packing->rounds_only) {
                      load.rounded = at::empty(
                          weight.shape, at::TensorOptions().dtype(WideDtype(options.matmul_dtype)));
                      packed.code->Unpack(packed.weight, load.rounded);
                      return;
                    }
                    for (at::Tensor& part : packed.weight.parts) part = part.to(options.device);
                    load.parameter =
                        comm::PackedParameter(weight.name, packed.code, std::move(packed.weight),
                                              HeldDtype(weight, options));
                  }),
                  weight.name);
  return load;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Load(
    std::shared_ptr<Checkpoint> checkpoint, TransformerOptions options,
    const std::vector<std::shared_ptr<const Adapter>>& merged) {
  RETURN_IF_ERROR(CheckDtypes(options), "transformer");
  const base::MemoryScope memory(base::MemoryPart::kWeights);
  const bool tied = checkpoint->config().tie_word_embeddings;
  const bool untied = std::any_of(merged.begin(), merged.end(), [&](const auto& adapter) {
    return adapter->Unties(checkpoint->config());
  });
  ModelConfig config = untied ? Untied(checkpoint->config()) : checkpoint->config();
  for (const auto& adapter : merged) {
    if (adapter->fixed == nullptr) continue;
    ASSIGN_OR_RETURN(config, adapter->fixed->ConfigOver(config));
  }
  const std::vector<std::string> stored_names = checkpoint->names();
  const absl::flat_hash_set<std::string> there(stored_names.begin(), stored_names.end());
  base::Parameters parameters;
  std::optional<ExpertParts> experts;
  if (options.expert_ranks != nullptr) experts.emplace(config, *options.expert_ranks);
  BrokenWeights broken;
  absl::flat_hash_set<std::string> packs;
  if (options.packing.has_value()) {
    if (!options.packing->rounds_only &&
        (!options.frozen || !merged.empty() || experts.has_value()))
      return absl::InvalidArgumentError(
          "a packed base must be frozen, without merged adapters and with all experts on each "
          "rank");
    for (const WeightShape& weight : PackedWeights(config)) packs.insert(weight.name);
  }
  const std::vector<WeightShape> wanted = WantedWeights(config);
  if (options.work != nullptr) options.work->total += static_cast<int64_t>(wanted.size());
  for (const WeightShape& weight : wanted) {
    const at::ScalarType stored = HeldDtype(weight, options);
    PackedLoad packed;
    if (packs.contains(weight.name)) {
      ASSIGN_OR_RETURN(packed, LoadPacked(*checkpoint, weight, options));
    }
    if (packed.parameter != nullptr) {
      parameters.push_back(std::move(packed.parameter));
      if (options.on_load != nullptr)
        RETURN_IF_ERROR(options.on_load(*parameters.back()), weight.name);
      if (options.work != nullptr) ++options.work->done;
      continue;
    }
    const std::string name =
        tied && weight.name == HeadName(config) ? EmbeddingName(config) : weight.name;
    at::Tensor tensor = std::move(packed.rounded);
    if (!tensor.defined() && !there.contains(name)) {  // a bias that an adapter adds
      tensor = at::zeros(weight.shape, at::TensorOptions().dtype(WideDtype(options.matmul_dtype)));
    }
    if (!tensor.defined()) {
      ASSIGN_OR_RETURN(
          tensor,
          checkpoint->Load(name, merged.empty() ? stored : WideDtype(options.matmul_dtype)));
    }
    RETURN_IF_ERROR(base::TryTorch([&] {
                      broken.Look(weight.name, tensor);
                      for (const auto& adapter : merged)
                        tensor = adapter->Merged(weight.name, tensor);
                      tensor = tensor.to(stored).to(options.device);
                    }),
                    weight.name);
    parameters.push_back(
        std::make_shared<base::Parameter>(weight.name, std::move(tensor), Learns(weight, options)));
    if (experts.has_value()) experts->Keep(*parameters.back());
    if (options.on_load != nullptr)
      RETURN_IF_ERROR(options.on_load(*parameters.back()), weight.name);
    if (options.work != nullptr) ++options.work->done;
  }
  RETURN_IF_ERROR(broken.Refuse(checkpoint->path()));
  return Create(config, std::move(parameters), options);
}

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(ModelConfig config,
                                                                 base::Parameters parameters,
                                                                 TransformerOptions options) {
  RETURN_IF_ERROR(CheckDtypes(options), "transformer");
  ASSIGN_OR_RETURN(base::Parameters ordered, InOrder(config, parameters), "transformer");
  const std::vector<WeightShape> weights = WantedWeights(config);
  for (size_t i = 0; i < ordered.size(); ++i) {
    if (!Learns(weights[i], options)) ordered[i]->set_trainable(false);
  }
  return std::unique_ptr<Transformer>(
      new Transformer(std::move(config), std::move(ordered), options, nullptr));
}

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Adapt(
    const Transformer& base, std::shared_ptr<const Adapter> adapter) {
  if (base.adapter_ != nullptr)
    return absl::InvalidArgumentError(
        "adapter: the model has one already; save it, and merge it as the base is loaded");
  for (const auto& parameter : base.parameters_) {
    if (parameter->trainable())
      return absl::InvalidArgumentError(absl::StrCat("adapter: the model under it must be frozen, ",
                                                     parameter->name(), " is trainable"));
  }
  ModelConfig config = base.config_;
  if (adapter->fixed != nullptr) {
    ASSIGN_OR_RETURN(config, adapter->fixed->ConfigOver(config));
  }
  return std::unique_ptr<Transformer>(
      new Transformer(std::move(config), base.parameters_, base.options_, std::move(adapter)));
}

// Creates the weights that the adapter's frozen changes (FixedParts) replace, in the base's dtypes.
// A bias that the base does not have starts as zeros. A tied head shares the embedding's parameter
// unless the changes make the two different.
void Transformer::MakeFixed(const ParametersByName& by_name) {
  if (adapter_ == nullptr || adapter_->fixed == nullptr) return;
  const FixedParts& fixed = *adapter_->fixed;
  const std::string embedding = EmbeddingName(config_), head = HeadName(config_);
  ModelConfig untied = config_;
  untied.tie_word_embeddings = false;
  for (const WeightShape& weight : WantedWeights(untied)) {
    const bool is_head = config_.tie_word_embeddings && weight.name == head;
    const auto found = by_name.find(is_head ? embedding : weight.name);
    if (found != by_name.end() && !fixed.Changes(weight.name)) continue;
    if (is_head && !fixed.Parts(embedding, head)) {
      const std::shared_ptr<base::Parameter> of_both = fixed_.at(embedding);
      fixed_[head] = of_both;  // may rehash and invalidate references into the map
      continue;
    }
    const at::ScalarType wide = WideDtype(options_.matmul_dtype);
    const at::Tensor whole =
        found == by_name.end()
            ? at::zeros(weight.shape, at::TensorOptions(options_.device).dtype(wide))
            : found->second->LeaseWhole(wide);
    const at::ScalarType held = found == by_name.end() ? wide : found->second->dtype();
    fixed_[weight.name] = std::make_shared<base::Parameter>(
        weight.name, fixed.Applied(weight.name, whole).to(held), /*trainable=*/false);
  }
}

Transformer::Transformer(ModelConfig config, base::Parameters parameters,
                         TransformerOptions options, std::shared_ptr<const Adapter> adapter)
    : config_(std::move(config)),
      options_(std::move(options)),
      parameters_(std::move(parameters)),
      adapter_(std::move(adapter)) {
  ParametersByName by_name;
  for (const auto& parameter : parameters_) by_name.emplace(parameter->name(), parameter);
  MakeFixed(by_name);
  embedding_ = Find(EmbeddingName(config_), by_name);
  norm_ = Find(FinalNormName(config_), by_name);
  head_ = Find(HeadName(config_), by_name);
  if (config_.layer_inputs.width > 0) {
    layer_table_ = Find(LayerTableName(config_), by_name);
    layer_map_ = Find(LayerMapName(config_), by_name);
    layer_map_norm_ = Find(LayerMapNormName(config_), by_name);
  }
  // A tied head is the base's embedding, even if an adapter trains another embedding.
  if (head_ == nullptr) head_ = parameters_.front();
  for (int64_t layer = 0; layer < config_.layers; ++layer)
    blocks_.push_back(MakeBlock(layer, by_name));
}

std::string Transformer::head_module() const {
  return std::string(absl::StripSuffix(HeadName(config_), ".weight"));
}

const Adapter::MapWeights* Transformer::head_map() const {
  return adapter_ == nullptr ? nullptr : adapter_->Find(head_module());
}

std::shared_ptr<base::Parameter> Transformer::Find(const std::string& name,
                                                   const ParametersByName& by_name) const {
  if (adapter_ != nullptr) {
    if (auto saved = adapter_->FindSaved(name)) return saved;
    if (const auto fixed = fixed_.find(name); fixed != fixed_.end()) return fixed->second;
  }
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

std::shared_ptr<const Transformer::Block> Transformer::MakeBlock(
    int64_t layer, const ParametersByName& by_name) const {
  auto block = std::make_shared<Block>();
  block->rule = BlockRuleOf(config_, layer, options_.matmul_dtype, options_.stream_dtype);
  block->rotary = config_.layer_rules[layer].rotary;
  block->keys_of = static_cast<int>(config_.layer_rules[layer].keys_of);
  block->places = WeightPlaces(config_, layer);
  for (int place = 0; place < block->places; ++place) {
    block->loans.push_back({Find(WeightName(config_, layer, place), by_name),
                            WeightDtype(place, options_.matmul_dtype)});
  }
  for (int place = 0; place < block->places; ++place) {
    if (FactsOf(place).kind != WeightKind::kMap) continue;
    AddAdapter(std::string(absl::StripSuffix(WeightName(config_, layer, place), ".weight")), place,
               block->loans, block->adapted);
  }
  return block;
}

void Transformer::AddAdapter(const std::string& module, int place, std::vector<Loan>& loans,
                             std::vector<AdaptedMap>& adapted) const {
  const Adapter::MapWeights* weights = adapter_ == nullptr ? nullptr : adapter_->Find(module);
  if (weights == nullptr) return;
  const at::ScalarType matmul = options_.matmul_dtype, wide = WideDtype(matmul);
  adapted.push_back({place, loans.size(), weights->skew != nullptr, weights->magnitude != nullptr,
                     weights->first_a != nullptr, weights->scale, module});
  const auto lend = [&](const std::shared_ptr<base::Parameter>& parameter, at::ScalarType dtype) {
    if (parameter != nullptr) loans.push_back({parameter, dtype});
  };
  lend(weights->skew, wide);
  lend(weights->a, matmul);
  lend(weights->b, matmul);
  lend(weights->magnitude, wide);
  lend(weights->first_a, matmul);
  lend(weights->first_b, matmul);
}

Transformer::AdapterRun Transformer::RunOfAdapter(const std::optional<Noise>& noise) const {
  if (adapter_ == nullptr) return {0.0, 0, noise};
  const AdapterOptions& options = adapter_->options;
  return {options.dropout, options.rotation.has_value() ? options.rotation->terms : 0, noise};
}

void Transformer::PutAdapter(const AdaptedMap& map, absl::Span<const at::Tensor> weights,
                             const AdapterRun& run, Projection& projection) {
  size_t next = map.loan;
  if (map.rotates) {
    projection.rotation = BlockRotation{weights[next], run.terms};
    return;
  }
  LowRank& low = projection.low_rank.emplace();
  low.a_RI = weights[next++];
  low.b_OR = weights[next++];
  if (map.dora) low.magnitude_O = weights[next++];
  if (map.has_first) {
    low.a_RI = at::cat({low.a_RI, weights[next]}, 0);
    low.b_OR = at::cat({low.b_OR, -weights[next + 1]}, 1);
  }
  low.scale = map.scale;
  if (run.noise.has_value()) {
    low.dropout = {run.rate, kernels::CounterKey(run.noise->seed, run.noise->step, map.module),
                   run.noise->identity_T};
  }
}

std::vector<at::Tensor> Transformer::LayerInputs(const at::Tensor& ids_T,
                                                 const at::Tensor& hidden_TD,
                                                 const AdapterRun& adapter,
                                                 const GivenWeights* given) const {
  const int64_t width = config_.layer_inputs.width, layers = config_.layers;
  if (width == 0) return {};
  const at::Tensor rows =
      LookUpOrCompose(layer_table_, ids_T, {options_.matmul_dtype, Stream(), config_.pad_token_id},
                      given) *
      RoundedScale(std::sqrt(static_cast<double>(width)), options_.weight_dtype);
  std::vector<Loan> loans = {{layer_map_, options_.matmul_dtype},
                             {layer_map_norm_, WideDtype(options_.matmul_dtype)}};
  std::vector<AdaptedMap> adapted;
  AddAdapter(config_.family->names.layer_map, 0, loans, adapted);
  const BlockFunction join = [eps = config_.rms_norm_eps, width, layers, stream = Stream(),
                              matmul = options_.matmul_dtype, adapted, adapter](
                                 absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                 const BlockRun& run) -> std::vector<at::Tensor> {
    const at::Tensor& hidden_TD = inputs.hidden;
    Projection map{.weight_OI = weights[0],
                   .bias_O = {},
                   .low_rank = std::nullopt,
                   .sum = run.sums.empty() ? nullptr : run.sums[0]};
    if (!adapted.empty()) PutAdapter(adapted[0], weights, adapter, map);
    const double scale = 1.0 / std::sqrt(static_cast<double>(hidden_TD.size(1)));
    const at::Tensor mapped = (Project(map, hidden_TD.to(matmul)) * scale).view({-1, width});
    const at::Tensor normed_TLP =
        RmsNorm(mapped, weights[1], eps, stream).view({hidden_TD.size(0), layers, width});
    const at::Tensor rows_TLP = inputs.besides[0].view(normed_TLP.sizes());
    return ((normed_TLP + rows_TLP) * M_SQRT1_2).unbind(1);
  };
  RunnerOptions runner = Runner();
  runner.store = nullptr;  // the first block already stores the same rows
  return RunOrCompose(join, loans, {hidden_TD, {rows}}, std::move(runner), given);
}

// NEFTune's noise is added before the embedding is scaled, as in Transformers, unless the family
// scales inside its embedding module (noise_after_scale).
at::Tensor Transformer::Embed(const at::Tensor& ids_T, const std::optional<Noise>& noise,
                              const GivenWeights* given) const {
  at::Tensor hidden_TD = LookUpOrCompose(
      embedding_, ids_T, {options_.matmul_dtype, Stream(), config_.pad_token_id}, given);
  const double scale = RoundedScale(config_.embedding_scale, options_.weight_dtype);
  const bool noisy = noise.has_value() && noise->neftune_alpha != 0.0;
  if (scale != 1.0 && config_.noise_after_scale) hidden_TD = hidden_TD * scale;
  if (noisy) hidden_TD = hidden_TD + EmbeddingNoise(*noise, hidden_TD);
  if (scale != 1.0 && !config_.noise_after_scale) hidden_TD = hidden_TD * scale;
  return hidden_TD;
}

Recompute Transformer::RecomputeOf(int64_t layer) const {
  if (layer < options_.whole_layers) return Recompute::kNone;
  return layer < options_.whole_layers + options_.selective_layers ? Recompute::kSelective
                                                                   : options_.recompute;
}

std::vector<Loan> Transformer::NormLoans() const {
  return {{norm_, WideDtype(options_.matmul_dtype)}};
}

at::ScalarType Transformer::Stream() const {
  return options_.stream_dtype.value_or(WideDtype(options_.matmul_dtype));
}

RunnerOptions Transformer::Runner() const {
  return {.recompute = options_.recompute,
          .tile_bytes = options_.tile_bytes,
          .tile_rows = options_.tile_rows,
          .store = options_.activation_store,
          .neighbours = {},
          .products = options_.products};
}

at::Tensor Transformer::RunNorm(const at::Tensor& hidden_TD, RunnerOptions runner,
                                const GivenWeights* given) const {
  const BlockFunction norm = [eps = config_.rms_norm_eps, stream = Stream(),
                              one = config_.norm_adds_one](
                                 absl::Span<const at::Tensor> weights, const BlockInputs& inputs,
                                 const BlockRun&) -> std::vector<at::Tensor> {
    return {RmsNorm(inputs.hidden, one ? weights[0] + 1 : weights[0], eps, stream)};
  };
  return RunOrCompose(norm, NormLoans(), {hidden_TD}, std::move(runner), given).front();
}

at::Tensor Transformer::Norm(const at::Tensor& hidden_TD) const {
  const at::ScalarType stream = Stream();
  TORCH_CHECK_VALUE(hidden_TD.dim() == 2 && hidden_TD.size(1) == config_.hidden_size &&
                        hidden_TD.scalar_type() == stream &&
                        hidden_TD.device().type() == options_.device.type(),
                    "norm: hidden states ", hidden_TD.scalar_type(), " ", hidden_TD.sizes(), " on ",
                    hidden_TD.device(), ", expected ", stream, " [T, ", config_.hidden_size,
                    "] on ", options_.device);
  const base::MemoryScope memory(base::MemoryPart::kActivations);
  return RunNorm(hidden_TD, Runner());
}

void Transformer::CheckInside(const ForwardOptions& options, int64_t blocks) const {
  TORCH_CHECK_VALUE(options.inside.empty() || options.keys != nullptr,
                    "inside: not with shifted attention (shift_attn), which has no documents");
  for (const auto& [layer, inside] : options.inside) {
    TORCH_CHECK_VALUE(layer >= 0 && layer < blocks, "inside: block ", layer + 1, ", expected 1 to ",
                      blocks, blocks < config_.layers ? " (where `upto` ends the forward)" : "");
    const Mixer* const mixer = blocks_[layer]->rule.mixer;
    TORCH_CHECK_VALUE(mixer != nullptr && mixer->cache == MixerCache::kKeys, "inside: block ",
                      layer + 1, " has no softmax attention");
  }
}

void Transformer::CheckWeights(const ForwardOptions& options) const {
  if (options.weights == nullptr) return;
  TORCH_CHECK_VALUE(options.keys != nullptr,
                    "weights: not with shifted attention (shift_attn), which has no documents");
  base::Parameters all = parameters_;
  if (adapter_ != nullptr)
    all.insert(all.end(), adapter_->parameters.begin(), adapter_->parameters.end());
  CheckGiven(*options.weights, all);
}

namespace {

attention::LayerAttention AttentionOf(std::shared_ptr<attention::PlannedAttention> plan,
                                      const ForwardOptions& options, int64_t layer) {
  const auto found = options.inside.find(layer);
  const bool composes = options.weights != nullptr, hooked = found != options.inside.end();
  if (!hooked && !composes) return attention::LayerAttention(std::move(plan));
  return {std::move(plan),
          {.keys = options.keys,
           .hooks = hooked ? found->second.hooks : nullptr,
           .given = hooked ? found->second.given : attention::NamedTensors(),
           .keeps_graph = composes}};
}

}  // namespace

Hidden Transformer::Forward(const at::Tensor& ids_T, const at::Tensor& positions_T,
                            std::shared_ptr<attention::PlannedAttention> attention,
                            const ForwardOptions& options) {
  TORCH_CHECK(ids_T.sizes() == positions_T.sizes(), "transformer: ids of shape ", ids_T.sizes(),
              ", positions of shape ", positions_T.sizes());
  const base::MemoryScope memory(base::MemoryPart::kActivations);
  const at::ScalarType wide = WideDtype(options_.matmul_dtype);
  auto rotaries = std::make_shared<std::vector<Rotary>>();
  const at::Tensor positions_there_T = base::ToDevice(positions_T, options_.device);
  for (const RotaryRule& rule : config_.rotaries)
    rotaries->push_back(MakeRotary(rule, positions_there_T, options.lengths_T, wide));
  std::optional<Noise> noise = options.noise;
  if (noise.has_value()) {
    CheckNoise(*noise, ids_T);
    noise->identity_T = base::ToDevice(noise->identity_T, options_.device);
  }
  RouterGroups groups = options.router_groups;
  if (groups.group_T.defined()) groups.group_T = base::ToDevice(groups.group_T, options_.device);

  StreamPass pass(options.hooks, config_.layers);
  const size_t blocks = pass.blocks();
  CheckInside(options, pass.blocks());
  CheckWeights(options);
  const GivenWeights* const given = options.weights.get();
  const auto loans_of = [&](size_t layer) {
    if (layer < blocks) return Away(blocks_[layer]->loans);
    return pass.has_norm() ? Away(NormLoans()) : std::vector<Loan>();
  };
  // The weights of the block whose backward runs after that of `layer`; none if that block kept its
  // autograd graph, and so its weights.
  const auto before = [&](size_t layer) {
    return layer > 0 && RecomputeOf(static_cast<int64_t>(layer) - 1) != Recompute::kNone
               ? loans_of(layer - 1)
               : std::vector<Loan>();
  };
  for (const Loan& loan : loans_of(0)) loan.parameter->Fetch(loan.dtype);
  Hidden result{pass.After(0, config_.family->names.embedding, Embed(ids_T, noise, given)), {}, {}};
  const AdapterRun adapter = RunOfAdapter(noise);
  const std::vector<at::Tensor> layer_inputs = LayerInputs(ids_T, result.hidden_TD, adapter, given);
  // For each block: the keys and values that later blocks use.
  std::vector<std::vector<at::Tensor>> keys(blocks);
  RunnerOptions runner = Runner();
  runner.products = options.products.value_or(runner.products);
  for (size_t layer = 0; layer < blocks; ++layer) {
    const std::shared_ptr<const Block>& block = blocks_[layer];
    runner.recompute = RecomputeOf(static_cast<int64_t>(layer));
    runner.neighbours = {.after = loans_of(layer + 1), .before = before(layer)};
    const attention::LayerAttention layer_attention =
        AttentionOf(attention, options, static_cast<int64_t>(layer));
    const BlockFunction function = [rotaries, groups, layer_attention, mixing = options.mixing,
                                    expert_ranks = options_.expert_ranks, block,
                                    adapter](absl::Span<const at::Tensor> weights,
                                             const BlockInputs& inputs,
                                             const BlockRun& run) -> std::vector<at::Tensor> {
      const absl::Span<const at::Tensor> besides = inputs.besides;
      const size_t own = besides.size() - layer_attention.given();
      BlockMaps maps(weights.subspan(0, block->places), run.sums);
      for (const AdaptedMap& map : block->adapted)
        PutAdapter(map, weights, adapter, maps.Map(map.place));
      BlockRows rows{block->rotary < 0 ? nullptr : &(*rotaries)[block->rotary], mixing.get(),
                     groups};
      rows.expert_ranks = expert_ranks.get();
      KeyValue keys;
      if (block->keys_of >= 0) {
        keys = {inputs.besides[0], inputs.besides[1]};
        rows.keys = &keys;
      }
      if (own % 2 == 1) rows.layer_input_TP = besides[own - 1];
      const BlockResult result = layer_attention.Call(
          inputs.hidden, besides.subspan(own), [&](attention::PlannedAttention& attention) {
            return TransformerBlock(block->rule, maps, inputs.hidden, rows, attention, run);
          });
      std::vector<at::Tensor> results = {result.hidden_TD};
      if (block->rule.hands_on_keys)
        results.insert(results.end(), {result.keys.k_TKD, result.keys.v_TKD});
      if (result.tally.chosen_GE.defined())
        results.insert(results.end(), {result.tally.probability_GE, result.tally.chosen_GE});
      return results;
    };
    BlockInputs inputs{result.hidden_TD};
    if (block->keys_of >= 0) inputs.besides = keys[block->keys_of];
    if (!layer_inputs.empty()) inputs.besides.push_back(layer_inputs[layer]);
    if (const auto found = options.inside.find(static_cast<int64_t>(layer));
        found != options.inside.end()) {
      for (const auto& each : found->second.given) inputs.besides.push_back(each.second);
    }
    std::vector<at::Tensor> outputs = RunOrCompose(function, block->loans, inputs, runner, given);
    result.hidden_TD =
        pass.After(static_cast<int64_t>(layer) + 1, LayerName(config_, static_cast<int64_t>(layer)),
                   std::move(outputs[0]));
    if (block->rule.hands_on_keys) keys[layer] = {outputs[1], outputs[2]};
    const size_t given = block->rule.hands_on_keys ? 3 : 1;
    if (outputs.size() == given) continue;
    RouterTally& tally = result.tally;
    const at::Tensor &probability_GE = outputs[given], &chosen_GE = outputs[given + 1];
    tally.probability_GE =
        tally.probability_GE.defined() ? tally.probability_GE + probability_GE : probability_GE;
    tally.chosen_GE = tally.chosen_GE.defined() ? tally.chosen_GE + chosen_GE : chosen_GE;
  }
  if (pass.has_norm()) {
    runner.recompute = options_.recompute;
    runner.neighbours = {.after = {}, .before = before(blocks)};
    result.hidden_TD = pass.After(config_.layers + 1, config_.family->names.norm,
                                  RunNorm(result.hidden_TD, std::move(runner), given));
  }
  result.states_TD = pass.TakeStates();
  base::TrimHeap();  // frees the blocks' work memory, which logits cannot reuse
  return result;
}

}  // namespace moonring::model
