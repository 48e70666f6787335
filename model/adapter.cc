#include "model/adapter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "kernels/random/counter_random.h"
#include "model/blocks/block_rotation.h"
#include "model/blocks/projection.h"
#include "model/config/weights.h"
#include "model/principal_part.h"

namespace moonring::model {
namespace {

constexpr absl::string_view kPrefix = "base_model.model.";
constexpr int64_t kMergeElements = int64_t{1}
                                   << 22;  // elements of a weight that are in fp64 at a time

// The module of a weight: "model.norm" for "model.norm.weight".
std::string ModuleOf(absl::string_view weight) {
  return std::string(weight.substr(0, weight.rfind('.')));
}

// All weights of a model. The head is listed separately from the embedding even if they are tied.
struct UntiedWeights {
  explicit UntiedWeights(ModelConfig config)
      : embedding(EmbeddingName(config)), head(HeadName(config)) {
    config.tie_word_embeddings = false;
    all = WantedWeights(config);
  }
  bool IsTable(const WeightShape& weight) const {
    return weight.name == embedding || weight.name == head;
  }
  bool IsLinear(const WeightShape& weight) const { return weight.linear; }
  bool IsHead(const WeightShape& weight) const { return weight.name == head; }

  std::string embedding, head;
  std::vector<WeightShape> all;
};

bool Targets(absl::string_view name, absl::string_view module) {
  return module == name || absl::EndsWith(module, absl::StrCat(".", name));
}

// Returns the first of `names` (PEFT's modules_to_save) that selects `weight`, or null. A name
// selects a weight if the name of the weight's module, or of an enclosing module, ends with that
// name.
const std::string* Saves(const std::vector<std::string>& names, const std::string& weight) {
  for (size_t end = weight.rfind('.'); end != std::string::npos && end > 0;
       end = weight.rfind('.', end - 1)) {
    const absl::string_view module = absl::string_view(weight).substr(0, end);
    for (const std::string& name : names) {
      if (absl::EndsWith(module, name)) return &name;
    }
  }
  return nullptr;
}

// The last components of the names of linear modules ("q_proj"), in the order of a block.
std::vector<std::string> LinearNames(const UntiedWeights& weights) {
  std::vector<std::string> names;
  for (const WeightShape& weight : weights.all) {
    if (!weights.IsLinear(weight)) continue;
    const std::string module = ModuleOf(weight.name), name = module.substr(module.rfind('.') + 1);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

// Why an adapter with these options cannot change the head; empty: it can.
absl::string_view WhyNotTheHead(const AdapterOptions& options) {
  if (options.rotation.has_value()) return "got OFT";
  if (options.dora) return "got DoRA (use_dora)";
  if (options.principal.has_value()) return "got PiSSA (pissa_init)";
  if (options.ties_head) return "got ensure_weight_tying, which keeps the head the embedding";
  return "";
}

absl::Status CheckTarget(absl::string_view key, const std::string& name,
                         const AdapterOptions& options, const UntiedWeights& weights) {
  for (const WeightShape& weight : weights.all) {
    if (!Targets(name, ModuleOf(weight.name))) continue;
    if (weights.IsLinear(weight)) return absl::OkStatus();
    if (weights.IsHead(weight)) {
      const absl::string_view why = WhyNotTheHead(options);
      if (why.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": ", name, " takes plain LoRA alone, ", why));
    }
    if (weights.IsTable(weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": ", name, " takes no adapter here; additional_target: ", name,
                       " trains it whole"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(key, ": no linear module is called '", name,
                                                 "', there are ",
                                                 absl::StrJoin(LinearNames(weights), ", ")));
}

absl::Status CheckSaved(const std::string& name, const UntiedWeights& weights) {
  std::set<std::string> modules;
  for (const WeightShape& weight : weights.all) {
    if (Saves({name}, weight.name) != nullptr) return absl::OkStatus();
    const std::string module = ModuleOf(weight.name);
    modules.insert(module.substr(module.rfind('.') + 1));
  }
  return absl::InvalidArgumentError(absl::StrCat("additional_target: no module is called '", name,
                                                 "', there are ", absl::StrJoin(modules, ", ")));
}

at::Tensor Stored(const base::Parameter& parameter) { return parameter.Lease(parameter.dtype()); }

std::shared_ptr<base::Parameter> MakeParameter(const std::string& name, at::Tensor weight,
                                               bool learns = true) {
  return std::make_shared<base::Parameter>(name, std::move(weight), learns);
}

absl::Status ValidateRotation(const AdapterOptions& options) {
  const RotationOptions& rotation = *options.rotation;
  const bool one = (rotation.blocks == 0) != (rotation.block_size == 0);
  if (!one || rotation.blocks < 0 || rotation.block_size < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "oft_rank: ", rotation.blocks, ", oft_block_size: ", rotation.block_size,
        ", expected one of them above 0 and the other one 0: their product is a map's inputs"));
  }
  if (rotation.terms < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("num_cayley_neumann_terms: ", rotation.terms, ", expected 0 or more"));
  return absl::OkStatus();
}

absl::Status CheckBlocks(const AdapterPlan& plan) {
  for (const AdapterPlan::Map& map : plan.maps) {
    if (map.block_size == 1)
      return absl::InvalidArgumentError(absl::StrCat(
          "oft_block_size: of the ", map.in, " inputs of ", map.module,
          " blocks of 1 would be made, which rotate nothing; expected larger ones, or an "
          "oft_target without it"));
  }
  return absl::OkStatus();
}

}  // namespace

double AdapterOptions::scale() const {
  return rslora ? alpha / std::sqrt(static_cast<double>(rank)) : alpha / static_cast<double>(rank);
}

int64_t AdapterOptions::rank_of(const std::string& module) const {
  const auto found = ranks.find(module);
  return found == ranks.end() ? rank : found->second;
}

double AdapterOptions::scale_of(const std::string& module) const {
  const auto found = alphas.find(module);
  const auto of = static_cast<double>(rank_of(module));
  return (found == alphas.end() ? alpha : found->second) / (rslora ? std::sqrt(of) : of);
}

absl::Status Validate(const AdapterOptions& options) {
  if (options.rotation.has_value()) return ValidateRotation(options);
  if (options.rank < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("lora_rank: ", options.rank, ", expected 1 or more"));
  if (!std::isfinite(options.alpha) || options.alpha <= 0.0)
    return absl::InvalidArgumentError(
        absl::StrCat("lora_alpha: ", options.alpha, ", expected above 0"));
  if (!(options.dropout >= 0.0 && options.dropout < 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lora_dropout: ", options.dropout, ", expected 0 or more and below 1"));
  }
  if (!options.principal.has_value()) return absl::OkStatus();
  if (options.dropout != 0.0)
    return absl::InvalidArgumentError(absl::StrCat("lora_dropout: ", options.dropout,
                                                   ", expected 0 with pissa_init, whose adapter is "
                                                   "the larger part of the weights"));
  if (options.principal->iterations < -1)
    return absl::InvalidArgumentError(absl::StrCat("pissa_iter: ", options.principal->iterations,
                                                   ", expected -1 (exact) or 0 and more"));
  return absl::OkStatus();
}

int64_t BlockSizeOf(const RotationOptions& rotation, int64_t in) {
  const auto divisor = [&](int64_t wanted) {
    if (wanted >= in) return in;
    int64_t above = wanted, below = wanted;
    while (in % above != 0) ++above;
    while (in % below != 0) --below;
    return wanted - below <= above - wanted ? below : above;
  };
  return rotation.blocks > 0 ? in / divisor(rotation.blocks) : divisor(rotation.block_size);
}

absl::StatusOr<AdapterPlan> PlanAdapter(const ModelConfig& config, const AdapterOptions& options) {
  RETURN_IF_ERROR(Validate(options));
  const UntiedWeights weights(config);
  const absl::string_view key = options.rotation.has_value() ? "oft_target" : "lora_target";
  AdapterPlan plan;
  const bool all = options.targets.size() == 1 && options.targets[0] == "all";
  plan.targets = all ? LinearNames(weights) : options.targets;
  std::sort(plan.targets.begin(), plan.targets.end());
  plan.targets.erase(std::unique(plan.targets.begin(), plan.targets.end()), plan.targets.end());
  const auto takes = [&](const std::string& module) {
    if (options.modules.has_value()) return options.modules->contains(module);
    return std::any_of(plan.targets.begin(), plan.targets.end(),
                       [&](const std::string& name) { return Targets(name, module); });
  };
  for (const std::string& name : plan.targets) {
    if (!options.modules.has_value()) RETURN_IF_ERROR(CheckTarget(key, name, options, weights));
  }
  for (const std::string& name : options.saved) RETURN_IF_ERROR(CheckSaved(name, weights));
  for (const WeightShape& weight : weights.all) {
    const std::string module = ModuleOf(weight.name);
    if (!weight.learns) continue;
    if (Saves(options.saved, weight.name) != nullptr) {
      plan.saved.push_back(weight);
    } else if ((weights.IsLinear(weight) || weights.IsHead(weight)) && takes(module)) {
      plan.maps.push_back(
          {module, weight.shape[0], weight.shape[1], options.rank_of(module),
           options.rotation.has_value() ? BlockSizeOf(*options.rotation, weight.shape[1]) : 0});
    }
  }
  if (plan.maps.empty() && !(options.modules.has_value() && options.modules->empty()))
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": every module named is trained whole by additional_target, none is left"));
  RETURN_IF_ERROR(CheckBlocks(plan));
  return plan;
}

std::string AdapterName(const std::string& module, absl::string_view part) {
  return absl::StrCat(kPrefix, module, ".", part);
}

std::string SavedName(const std::string& weight) { return absl::StrCat(kPrefix, weight); }

const Adapter::MapWeights* Adapter::Find(const std::string& module) const {
  const auto found = maps.find(module);
  return found == maps.end() ? nullptr : &found->second;
}

std::shared_ptr<base::Parameter> Adapter::FindSaved(const std::string& weight) const {
  const auto found = saved.find(weight);
  return found == saved.end() ? nullptr : found->second;
}

bool Adapter::Unties(const ModelConfig& config) const {
  const std::string embedding = EmbeddingName(config), head = HeadName(config);
  if (saved.contains(embedding) && FindSaved(head) == FindSaved(embedding)) return false;
  return config.tie_word_embeddings &&
         (saved.contains(embedding) || saved.contains(head) || maps.contains(ModuleOf(head)) ||
          (fixed != nullptr && fixed->Parts(embedding, head)));
}

absl::StatusOr<std::shared_ptr<Adapter>> Adapter::Assemble(const ModelConfig& config,
                                                           AdapterOptions options, const Take& take,
                                                           const Take& take_first) {
  ASSIGN_OR_RETURN(const AdapterPlan plan, PlanAdapter(config, options));
  auto adapter = std::make_shared<Adapter>();
  using Shape = std::vector<int64_t>;
  const auto add = [&](const std::string& name,
                       const Shape& shape) -> absl::StatusOr<std::shared_ptr<base::Parameter>> {
    ASSIGN_OR_RETURN(at::Tensor tensor, take(name, shape));
    adapter->parameters.push_back(MakeParameter(name, std::move(tensor)));
    return adapter->parameters.back();
  };
  const auto add_first =
      [&](const std::string& name,
          const Shape& shape) -> absl::StatusOr<std::shared_ptr<base::Parameter>> {
    ASSIGN_OR_RETURN(at::Tensor tensor, take_first(name, shape));
    adapter->first.push_back(MakeParameter(name, std::move(tensor), /*learns=*/false));
    return adapter->first.back();
  };
  for (const AdapterPlan::Map& map : plan.maps) {
    MapWeights& weights = adapter->maps[map.module];
    const int64_t rank = map.rank;
    weights.scale = options.scale_of(map.module);
    if (map.block_size > 0) {
      const int64_t numbers = map.block_size * (map.block_size - 1) / 2;
      ASSIGN_OR_RETURN(weights.skew, add(AdapterName(map.module, "oft_R.weight"),
                                         {map.in / map.block_size, numbers}));
      continue;
    }
    const std::string a = AdapterName(map.module, "lora_A.weight"),
                      b = AdapterName(map.module, "lora_B.weight");
    ASSIGN_OR_RETURN(weights.a, add(a, {rank, map.in}));
    ASSIGN_OR_RETURN(weights.b, add(b, {map.out, rank}));
    if (options.dora) {
      ASSIGN_OR_RETURN(weights.magnitude,
                       add(AdapterName(map.module, "lora_magnitude_vector"), {map.out}));
    }
    if (take_first == nullptr) continue;
    ASSIGN_OR_RETURN(weights.first_a, add_first(a, {rank, map.in}));
    ASSIGN_OR_RETURN(weights.first_b, add_first(b, {map.out, rank}));
  }
  for (const WeightShape& weight : plan.saved) {
    ASSIGN_OR_RETURN(adapter->saved[weight.name], add(SavedName(weight.name), weight.shape));
  }
  const auto embedding = adapter->saved.find(EmbeddingName(config));
  if (options.ties_head && embedding != adapter->saved.end())
    adapter->saved.emplace(HeadName(config), embedding->second);
  options.targets = plan.targets;
  adapter->options = std::move(options);
  return adapter;
}

absl::StatusOr<std::shared_ptr<Adapter>> Adapter::Create(const ModelConfig& config,
                                                         AdapterOptions options,
                                                         const base::Parameters& base,
                                                         uint64_t seed,
                                                         at::ScalarType weight_dtype) {
  std::map<std::string, std::shared_ptr<base::Parameter>> weights;
  for (const auto& parameter : base) weights[parameter->name()] = parameter;
  const at::TensorOptions placed = at::TensorOptions(base.front()->device()).dtype(weight_dtype);
  if (config.tie_word_embeddings) weights[HeadName(config)] = weights[EmbeddingName(config)];
  std::string decomposed;  // the module whose decomposition is cached in `principal`
  PrincipalPart principal;
  const auto principal_of = [&](const std::string& module) -> const PrincipalPart& {
    if (module == decomposed) return principal;
    principal =
        PrincipalPartOf(Stored(*weights.at(module + ".weight")), options.rank_of(module),
                        options.scale_of(module), options.principal->iterations, seed, module);
    decomposed = module;
    return principal;
  };
  const auto first_values = [&](const std::string& name, const std::vector<int64_t>& shape) {
    at::NoGradGuard no_grad;
    std::string module(absl::StripPrefix(name, kPrefix));
    const auto ends = [&](absl::string_view part) {
      if (!absl::EndsWith(module, part)) return false;
      module.resize(module.size() - part.size());
      return true;
    };
    const auto held = [&](const at::Tensor& tensor) {
      return tensor.to(placed, /*non_blocking=*/false, /*copy=*/true);
    };
    if (ends(".oft_R.weight")) return at::zeros(shape, placed);
    if (ends(".lora_A.weight")) {
      if (options.principal.has_value()) return held(principal_of(module).a_RI);
      const double bound = 1.0 / std::sqrt(static_cast<double>(shape[1]));
      const at::Tensor uniform = kernels::InitialUniform(seed, name, shape).to(at::kDouble);
      return uniform.mul_(2.0).sub_(1.0).mul_(bound).to(weight_dtype).to(placed.device());
    }
    if (ends(".lora_B.weight")) {
      if (options.principal.has_value()) return held(principal_of(module).b_OR);
      return at::zeros(shape, placed);
    }
    if (ends(".lora_magnitude_vector")) {
      const at::Tensor weight = Stored(*weights.at(module + ".weight"));
      const at::Tensor none = at::zeros({1, weight.size(1)}, weight.options());
      return AdaptedRowNorms(weight, none, at::zeros({weight.size(0), 1}, weight.options()), 0.0)
          .to(weight_dtype);
    }
    return Stored(*weights.at(module)).to(weight_dtype, /*non_blocking=*/false, /*copy=*/true);
  };
  const Take take = [&](const std::string& name,
                        const std::vector<int64_t>& shape) -> absl::StatusOr<at::Tensor> {
    at::Tensor tensor;
    RETURN_IF_ERROR(base::TryTorch([&] { tensor = first_values(name, shape); }), name);
    return tensor;
  };
  const bool keeps_first = options.principal.has_value();
  return Assemble(config, options, take, keeps_first ? take : nullptr);
}

absl::StatusOr<std::shared_ptr<Adapter>> Adapter::Converted(const ModelConfig& config) const {
  if (first.empty())
    return absl::InvalidArgumentError("pissa_convert: the adapter has no first values to take off");
  if (options.dora)
    return absl::InvalidArgumentError(
        "pissa_convert: a DoRA adapter is not converted, as by PEFT; expected use_dora: false");
  AdapterOptions wide = options;
  wide.principal.reset();
  const double more = options.rslora ? std::sqrt(2.0) : 2.0;
  wide.rank *= 2;
  wide.alpha *= more;
  for (auto& [module, rank] : wide.ranks) rank *= 2;
  for (auto& [module, alpha] : wide.alphas) alpha *= more;
  std::map<std::string, at::Tensor> firsts;
  for (const auto& parameter : first) firsts[parameter->name()] = Stored(*parameter);
  return Assemble(
      config, std::move(wide),
      [&](const std::string& name, const std::vector<int64_t>&) -> absl::StatusOr<at::Tensor> {
        at::NoGradGuard no_grad;
        const auto mine =
            std::find_if(parameters.begin(), parameters.end(),
                         [&](const auto& parameter) { return parameter->name() == name; });
        const at::Tensor now = (*mine)->LeaseWhole((*mine)->dtype());
        const auto then = firsts.find(name);
        if (then == firsts.end()) return now.clone();
        return absl::EndsWith(name, ".lora_A.weight") ? at::cat({now, then->second}, 0)
                                                      : at::cat({now, -then->second}, 1);
      });
}

at::Tensor Adapter::Merged(const std::string& name, const at::Tensor& base) const {
  at::NoGradGuard no_grad;
  if (const auto whole = FindSaved(name)) return whole->weight().to(base.options());
  const at::Tensor weight = fixed == nullptr ? base : fixed->Applied(name, base);
  const MapWeights* map = absl::EndsWith(name, ".weight") ? Find(ModuleOf(name)) : nullptr;
  if (map == nullptr) return weight;
  const auto wide = [](const std::shared_ptr<base::Parameter>& parameter) {
    return parameter->weight().to(at::kDouble);
  };
  at::Tensor a, b, rotation;
  if (map->skew != nullptr) {
    rotation = RotationOf({wide(map->skew), options.rotation->terms});
  } else {
    a = wide(map->a);
    b = wide(map->b);
  }
  if (map->first_a != nullptr) {
    a = at::cat({a, wide(map->first_a)}, 0);
    b = at::cat({b, -wide(map->first_b)}, 1);
  }
  at::Tensor merged = at::empty_like(weight);
  const int64_t rows = weight.size(0),
                step = std::max<int64_t>(1, kMergeElements / std::max<int64_t>(1, weight.size(1)));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const auto part = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, begin, count).to(at::kDouble);
    };
    at::Tensor sum = rotation.defined() ? RotateBackward(part(weight), rotation)
                                        : at::addmm(part(weight), part(b), a, 1.0, map->scale);
    if (map->magnitude != nullptr)
      sum.mul_((part(map->magnitude->weight()) / sum.norm(2, {1})).unsqueeze(1));
    merged.narrow(0, begin, count).copy_(sum);
  }
  return merged;
}

}  // namespace moonring::model
