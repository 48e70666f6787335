#include "model/adapter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "comm/random/counter_random.h"
#include "comm/status/status_macros.h"
#include "comm/status/torch_status.h"
#include "model/blocks/projection.h"
#include "model/config/weights.h"

namespace moonring::model {
namespace {

constexpr absl::string_view kPrefix = "base_model.model.";
constexpr int64_t kMergeElements = int64_t{1} << 22;  // of a weight in fp64 at a time

// "model.norm" of "model.norm.weight".
std::string ModuleOf(absl::string_view weight) {
  return std::string(weight.substr(0, weight.rfind('.')));
}

// All weights, the head among them also where it is tied.
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

  std::string embedding, head;
  std::vector<WeightShape> all;
};

bool Targets(absl::string_view name, absl::string_view module) {
  return module == name || absl::EndsWith(module, absl::StrCat(".", name));
}

// Whether PEFT's modules_to_save, any of `names`, takes a weight: the module it is in, or one
// around that, ends in the name.
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

// The last parts of the linear modules' names, in the order of a block.
std::vector<std::string> LinearNames(const UntiedWeights& weights) {
  std::vector<std::string> names;
  for (const WeightShape& weight : weights.all) {
    if (!weights.IsLinear(weight)) continue;
    const std::string module = ModuleOf(weight.name), name = module.substr(module.rfind('.') + 1);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

absl::Status CheckTarget(const std::string& name, const UntiedWeights& weights) {
  for (const WeightShape& weight : weights.all) {
    if (!Targets(name, ModuleOf(weight.name))) continue;
    if (weights.IsLinear(weight)) return absl::OkStatus();
    if (weights.IsTable(weight)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "lora_target: ", name, " takes no low-rank weights here; additional_target: ", name,
          " trains it whole"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("lora_target: no linear module is called '", name,
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

at::Tensor Stored(const comm::Parameter& parameter) { return parameter.Lease(parameter.dtype()); }

std::shared_ptr<comm::Parameter> MakeParameter(const std::string& name, at::Tensor weight) {
  return std::make_shared<comm::Parameter>(name, std::move(weight));
}

}  // namespace

double AdapterOptions::scale() const {
  return rslora ? alpha / std::sqrt(static_cast<double>(rank)) : alpha / static_cast<double>(rank);
}

absl::Status Validate(const AdapterOptions& options) {
  if (options.rank < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("lora_rank: ", options.rank, ", wanted 1 or more"));
  if (!std::isfinite(options.alpha) || options.alpha <= 0.0)
    return absl::InvalidArgumentError(
        absl::StrCat("lora_alpha: ", options.alpha, ", wanted above 0"));
  if (!(options.dropout >= 0.0 && options.dropout < 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lora_dropout: ", options.dropout, ", wanted 0 or more and below 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<AdapterPlan> PlanAdapter(const ModelConfig& config, const AdapterOptions& options) {
  RETURN_IF_ERROR(Validate(options));
  const UntiedWeights weights(config);
  AdapterPlan plan;
  const bool all = options.targets.size() == 1 && options.targets[0] == "all";
  plan.targets = all ? LinearNames(weights) : options.targets;
  std::sort(plan.targets.begin(), plan.targets.end());
  plan.targets.erase(std::unique(plan.targets.begin(), plan.targets.end()), plan.targets.end());
  for (const std::string& name : plan.targets) RETURN_IF_ERROR(CheckTarget(name, weights));
  for (const std::string& name : options.saved) RETURN_IF_ERROR(CheckSaved(name, weights));
  for (const WeightShape& weight : weights.all) {
    const std::string module = ModuleOf(weight.name);
    if (!weight.learns) continue;
    if (Saves(options.saved, weight.name) != nullptr) {
      plan.saved.push_back(weight);
    } else if (weights.IsLinear(weight) &&
               std::any_of(plan.targets.begin(), plan.targets.end(),
                           [&](const std::string& name) { return Targets(name, module); })) {
      plan.maps.push_back({module, weight.shape[0], weight.shape[1]});
    }
  }
  if (plan.maps.empty())
    return absl::InvalidArgumentError(
        "lora_target: every module named is trained whole by additional_target, none is left");
  return plan;
}

std::string LowRankName(const std::string& module, absl::string_view part) {
  return absl::StrCat(kPrefix, module, ".", part);
}

std::string SavedName(const std::string& weight) { return absl::StrCat(kPrefix, weight); }

const Adapter::LowRankWeights* Adapter::Find(const std::string& module) const {
  const auto found = maps.find(module);
  return found == maps.end() ? nullptr : &found->second;
}

std::shared_ptr<comm::Parameter> Adapter::FindSaved(const std::string& weight) const {
  const auto found = saved.find(weight);
  return found == saved.end() ? nullptr : found->second;
}

bool Adapter::Unties(const ModelConfig& config) const {
  return config.tie_word_embeddings &&
         (saved.contains(EmbeddingName(config)) || saved.contains(HeadName(config)));
}

absl::StatusOr<std::shared_ptr<Adapter>> Adapter::Assemble(const ModelConfig& config,
                                                           AdapterOptions options,
                                                           const Take& take) {
  ASSIGN_OR_RETURN(const AdapterPlan plan, PlanAdapter(config, options));
  auto adapter = std::make_shared<Adapter>();
  const int64_t rank = options.rank;
  const auto add =
      [&](const std::string& name,
          const std::vector<int64_t>& shape) -> absl::StatusOr<std::shared_ptr<comm::Parameter>> {
    ASSIGN_OR_RETURN(at::Tensor tensor, take(name, shape));
    adapter->parameters.push_back(MakeParameter(name, std::move(tensor)));
    return adapter->parameters.back();
  };
  for (const AdapterPlan::LowRankMap& map : plan.maps) {
    LowRankWeights& weights = adapter->maps[map.module];
    ASSIGN_OR_RETURN(weights.a, add(LowRankName(map.module, "lora_A.weight"), {rank, map.in}));
    ASSIGN_OR_RETURN(weights.b, add(LowRankName(map.module, "lora_B.weight"), {map.out, rank}));
    if (options.dora) {
      ASSIGN_OR_RETURN(weights.magnitude,
                       add(LowRankName(map.module, "lora_magnitude_vector"), {map.out}));
    }
  }
  for (const WeightShape& weight : plan.saved) {
    ASSIGN_OR_RETURN(adapter->saved[weight.name], add(SavedName(weight.name), weight.shape));
  }
  options.targets = plan.targets;
  adapter->options = std::move(options);
  return adapter;
}

absl::StatusOr<std::shared_ptr<Adapter>> Adapter::Create(const ModelConfig& config,
                                                         AdapterOptions options,
                                                         const comm::Parameters& base,
                                                         uint64_t seed,
                                                         at::ScalarType weight_dtype) {
  std::map<std::string, std::shared_ptr<comm::Parameter>> weights;
  for (const auto& parameter : base) weights[parameter->name()] = parameter;
  const at::TensorOptions placed = at::TensorOptions(base.front()->device()).dtype(weight_dtype);
  if (config.tie_word_embeddings) weights[HeadName(config)] = weights[EmbeddingName(config)];
  const auto first_values = [&](const std::string& name, const std::vector<int64_t>& shape) {
    at::NoGradGuard no_grad;
    std::string module(absl::StripPrefix(name, kPrefix));
    const auto ends = [&](absl::string_view part) {
      if (!absl::EndsWith(module, part)) return false;
      module.resize(module.size() - part.size());
      return true;
    };
    if (ends(".lora_A.weight")) {
      const double bound = 1.0 / std::sqrt(static_cast<double>(shape[1]));
      const at::Tensor uniform = comm::InitialUniform(seed, name, shape).to(at::kDouble);
      return uniform.mul_(2.0).sub_(1.0).mul_(bound).to(weight_dtype).to(placed.device());
    }
    if (ends(".lora_B.weight")) return at::zeros(shape, placed);
    if (ends(".lora_magnitude_vector")) {
      const at::Tensor weight = Stored(*weights.at(module + ".weight"));
      const at::Tensor none = at::zeros({1, weight.size(1)}, weight.options());
      return AdaptedRowNorms(weight, none, at::zeros({weight.size(0), 1}, weight.options()), 0.0)
          .to(weight_dtype);
    }
    return Stored(*weights.at(module)).to(weight_dtype, /*non_blocking=*/false, /*copy=*/true);
  };
  return Assemble(config, std::move(options),
                  [&](const std::string& name,
                      const std::vector<int64_t>& shape) -> absl::StatusOr<at::Tensor> {
                    at::Tensor tensor;
                    RETURN_IF_ERROR(comm::TryTorch([&] { tensor = first_values(name, shape); }),
                                    name);
                    return tensor;
                  });
}

at::Tensor Adapter::Merged(const std::string& name, const at::Tensor& weight) const {
  at::NoGradGuard no_grad;
  if (const auto whole = FindSaved(name)) return whole->weight().to(weight.options());
  const LowRankWeights* low = absl::EndsWith(name, ".weight") ? Find(ModuleOf(name)) : nullptr;
  if (low == nullptr) return weight;
  const at::Tensor a = low->a->weight().to(at::kDouble);
  at::Tensor merged = at::empty_like(weight);
  const int64_t rows = weight.size(0),
                step = std::max<int64_t>(1, kMergeElements / std::max<int64_t>(1, weight.size(1)));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const auto part = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, begin, count).to(at::kDouble);
    };
    at::Tensor sum = at::addmm(part(weight), part(low->b->weight()), a, 1.0, options.scale());
    if (low->magnitude != nullptr)
      sum.mul_((part(low->magnitude->weight()) / sum.norm(2, {1})).unsqueeze(1));
    merged.narrow(0, begin, count).copy_(sum);
  }
  return merged;
}

}  // namespace moonring::model
