#include "trainer/optimizer/rule_optimizer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/threads/small_work.h"
#include "trainer/optimizer/lora_plus.h"
#include "trainer/sharding/zero_cost.h"

namespace moonring::trainer {
namespace {

constexpr int64_t kMostNamed = 3;  // names in an error message

void CheckName(const std::string& parameter, const std::string& key) {
  TORCH_CHECK_VALUE(!key.empty() && !absl::StrContains(key, '/'), "optimizer: ", parameter,
                    ": a state's name is '", key, "', expected one without '/'");
  TORCH_CHECK_VALUE(key != "weight" && key != "step", "optimizer: ", parameter,
                    ": a state cannot be named '", key,
                    "': a checkpoint keeps the weight and the number of steps under that name");
}

// Copies state tensors that alias a weight, a gradient or another state, so that later writes to
// those do not change the state.
void Own(UpdateRule::State& state, const std::vector<at::Tensor>& foreign) {
  std::vector<at::Tensor> others = foreign;
  for (auto& [key, tensor] : state) {
    const bool shared = std::any_of(others.begin(), others.end(), [&](const at::Tensor& other) {
      return tensor.is_alias_of(other);
    });
    tensor = shared ? tensor.detach().clone() : tensor.detach().contiguous();
    others.push_back(tensor);
  }
}

std::string Names(const UpdateRule::State& state) {
  return state.empty() ? "nothing"
                       : absl::StrJoin(state, ", ", [](std::string* text, const auto& each) {
                           absl::StrAppend(text, each.first);
                         });
}

bool SameNames(const UpdateRule::State& a, const UpdateRule::State& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const auto& left, const auto& right) { return left.first == right.first; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RuleOptimizer>> RuleOptimizer::Create(UpdateRule rule,
                                                                     RuleOptimizerOptions options,
                                                                     base::Parameters parameters) {
  if (!(options.loraplus_ratio > 0.0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer: loraplus_lr_ratio is ", options.loraplus_ratio, ", expected more than 0"));
  }
  options.whole.resize(parameters.size());
  const comm::Communicator& shards = *options.shards;
  std::vector<int64_t> numels;
  std::vector<Slot> slots;
  std::set<std::string> names;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const base::Parameter& parameter = *parameters[i];
    TORCH_CHECK(names.insert(parameter.name()).second, "optimizer: parameter ", parameter.name(),
                " was given twice");
    const int64_t part = PartsOf(parameter.numel(), shards.size())[shards.rank()];
    const at::Tensor& weight = parameter.weight();
    if (weight.numel() != part || !weight.is_contiguous()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "optimizer: ", parameter.name(), ": ", weight.numel(), " of ", parameter.numel(),
          " numbers are here, expected ", part, " in one run: `zero` is what parts the weights"));
    }
    numels.push_back(options.whole[i] ? parameter.numel() : 0);
    slots.push_back({std::move(parameters[i]), LoraPlusRate(parameter, options.loraplus_ratio),
                     options.whole[i], /*owner=*/0});
  }
  const std::vector<int> owners = OwnersOf(numels, shards.size());
  for (size_t i = 0; i < slots.size(); ++i) slots[i].owner = owners[i];
  return std::unique_ptr<RuleOptimizer>(
      new RuleOptimizer(std::move(rule), std::move(options), std::move(slots)));
}

bool RuleOptimizer::IsMine(const Slot& slot) const {
  if (slot.whole) return slot.owner == options_.shards->rank();
  return slot.parameter->weight().numel() > 0;
}

UpdateRule::State RuleOptimizer::NewState(size_t index, const at::Tensor& weight) const {
  const Slot& slot = slots_[index];
  UpdateRule::State state = rule_.state(index, weight);
  for (const auto& [key, tensor] : state) {
    CheckName(slot.parameter->name(), key);
    TORCH_CHECK_VALUE(!at::isComplexType(tensor.scalar_type()), "optimizer: the state '", key,
                      "' of ", slot.parameter->name(), ": expected a real dtype, got ",
                      tensor.scalar_type());
    TORCH_CHECK_VALUE(slot.whole || tensor.dim() == 0 || tensor.sizes() == weight.sizes(),
                      "optimizer: the state '", key, "' of ", slot.parameter->name(),
                      ": expected the shape ", weight.sizes(), " of its part, or [], got ",
                      tensor.sizes(), "; a state of another shape is for `whole` parameters");
  }
  Own(state, {weight});
  return state;
}

void RuleOptimizer::Update(size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           double lr) {
  Slot& slot = slots_[index];
  const std::string& name = slot.parameter->name();
  const at::ScalarType dtype = slot.parameter->gradient_dtype();
  TORCH_CHECK(gradient.sizes() == weight.sizes() && gradient.scalar_type() == dtype,
              "optimizer: ", name, ": gradient ", gradient.sizes(), " of ", gradient.scalar_type(),
              ", expected ", weight.sizes(), " of ", dtype);
  const at::Tensor working = weight.to(dtype);
  if (!slot.steps.defined()) {
    slot.state = NewState(index, working);
    slot.steps = at::zeros({}, at::kFloat);
  }
  slot.steps.add_(1);
  UpdateRule::State next = rule_.update(index, working, gradient, slot.state, lr * slot.rate,
                                        static_cast<int64_t>(slot.steps.item<float>()));
  TORCH_CHECK_VALUE(SameNames(next, slot.state), "optimizer: after the step the state of ", name,
                    " is ", Names(next), "; expected ", Names(slot.state));
  for (const auto& [key, tensor] : next) {
    const at::Tensor& before = slot.state.at(key);
    TORCH_CHECK_VALUE(
        tensor.sizes() == before.sizes() && tensor.scalar_type() == before.scalar_type(),
        "optimizer: after the step the state '", key, "' of ", name, " is ", tensor.sizes(), " of ",
        tensor.scalar_type(), "; expected ", before.sizes(), " of ", before.scalar_type());
  }
  Own(next, {working, gradient});
  slot.state = std::move(next);
  if (!working.is_same(weight)) weight.copy_(working);
}

void RuleOptimizer::Step(double lr) {
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kOptimizer);
  std::vector<size_t> stepped, wholes;
  int64_t elements = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    base::Parameter& parameter = *slots_[i].parameter;
    if (!parameter.trainable() || !parameter.gradient().defined()) continue;
    base::CountWritten(base::MemoryPart::kWeights, parameter.weight());
    stepped.push_back(i);
    if (slots_[i].whole) wholes.push_back(i);
    if (!slots_[i].whole) elements += parameter.weight().numel();
  }
  {
    const base::SmallWorkScope small(/*rows=*/1, elements);
    for (const size_t i : stepped) {
      const Slot& slot = slots_[i];
      if (slot.whole || !IsMine(slot)) continue;
      Update(i, slot.parameter->weight().view({-1}),
             slot.parameter->gradient().contiguous().view({-1}), lr);
    }
  }
  base::ThrowIfError(StepWholes(wholes, lr));
  base::ThrowIfError(RefuseNonFinite(stepped));
}

absl::Status RuleOptimizer::StepWholes(const std::vector<size_t>& indices, double lr) {
  std::vector<size_t> round;
  int64_t bytes = 0;
  for (const size_t i : indices) {
    const base::Parameter& parameter = *slots_[i].parameter;
    const int64_t own =
        parameter.numel() * static_cast<int64_t>(c10::elementSize(parameter.dtype()) +
                                                 c10::elementSize(parameter.gradient_dtype()));
    if (!round.empty() && bytes + own > options_.bucket_bytes) {
      RETURN_IF_ERROR(StepWhole(round, lr));
      round.clear();
      bytes = 0;
    }
    round.push_back(i);
    bytes += own;
  }
  return round.empty() ? absl::OkStatus() : StepWhole(round, lr);
}

absl::Status RuleOptimizer::StepWhole(const std::vector<size_t>& round, double lr) {
  std::vector<OwnedTensor> weights, gradients;
  for (const size_t i : round) {
    const base::Parameter& parameter = *slots_[i].parameter;
    weights.push_back({parameter.weight().view({-1}), parameter.numel(), slots_[i].owner});
    gradients.push_back(
        {parameter.gradient().contiguous().view({-1}), parameter.numel(), slots_[i].owner});
  }
  RETURN_IF_ERROR(GatherToOwners(*options_.shards, weights), "optimizer: whole weights");
  RETURN_IF_ERROR(GatherToOwners(*options_.shards, gradients), "optimizer: whole gradients");
  for (size_t each = 0; each < round.size(); ++each) {
    const Slot& slot = slots_[round[each]];
    if (!IsMine(slot) && options_.shards->size() > 1) continue;
    const at::IntArrayRef shape = slot.parameter->shape();
    const int64_t least = shape.empty() ? 1 : *std::min_element(shape.begin(), shape.end());
    // SmallWorkScope uses one thread if the work is small. The work is estimated as that of
    // products with a square matrix of the smaller dim, as in orthogonalization.
    const base::SmallWorkScope small(std::max<int64_t>(1, least), slot.parameter->numel());
    Update(round[each], weights[each].whole.view(shape), gradients[each].whole.view(shape), lr);
    gradients[each].whole.reset();
  }
  return base::WithContext(ScatterFromOwners(*options_.shards, weights),
                           "optimizer: whole weights");
}

absl::Status RuleOptimizer::RefuseNonFinite(const std::vector<size_t>& stepped) const {
  std::vector<at::Tensor> sums;  // non-finite if an element is
  for (const size_t i : stepped)
    sums.push_back(slots_[i].parameter->weight().sum().to(at::kDouble));
  at::Tensor broken = at::zeros({static_cast<int64_t>(slots_.size())}, at::kLong);
  if (!sums.empty()) {
    for (at::Tensor& sum : sums) sum = sum.to(sums.front().device());
    const at::Tensor here = at::stack(sums).to(at::kCPU);
    for (size_t i = 0; i < stepped.size(); ++i) {
      broken.data_ptr<int64_t>()[stepped[i]] = std::isfinite(here.data_ptr<double>()[i]) ? 0 : 1;
    }
  }
  RETURN_IF_ERROR(options_.shards->AllReduceMax(broken), "optimizer: which weights are not finite");
  std::vector<std::string> names;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (broken.data_ptr<int64_t>()[i] != 0) names.push_back(slots_[i].parameter->name());
  }
  if (names.empty()) return absl::OkStatus();
  const size_t count = names.size();
  names.resize(std::min<size_t>(count, kMostNamed));
  return absl::AbortedError(absl::StrCat(
      "optimizer: its step left ", count, count == 1 ? " weight that is" : " weights that are",
      " not finite (", absl::StrJoin(names, ", "), count > kMostNamed ? ", ...)" : ")"));
}

std::map<std::string, at::Tensor> RuleOptimizer::SaveState() const {
  std::map<std::string, at::Tensor> saved;
  for (const Slot& slot : slots_) {
    if (!slot.steps.defined()) continue;
    const std::string& name = slot.parameter->name();
    saved[absl::StrCat("step/", name)] = slot.steps;
    for (const auto& [key, tensor] : slot.state) {
      saved[absl::StrCat(key, "/", name)] =
          slot.whole && tensor.dim() > 0 ? tensor.unsqueeze(0) : tensor;
    }
  }
  return saved;
}

// The state of a parameter, restored from the saved tensors, which include `step`.
absl::StatusOr<UpdateRule::State> RuleOptimizer::Loaded(size_t index,
                                                        const UpdateRule::State& saved) const {
  const Slot& slot = slots_[index];
  const std::string& name = slot.parameter->name();
  const base::Parameter& parameter = *slot.parameter;
  // A rule may use the weight's shape for its state; the values do not matter here.
  const at::Tensor like =
      slot.whole ? at::zeros(parameter.shape(),
                             parameter.weight().options().dtype(parameter.gradient_dtype()))
                 : parameter.weight().view({-1}).to(parameter.gradient_dtype());
  UpdateRule::State state = NewState(index, like), wanted = state;
  wanted["step"] = at::Tensor();
  if (!SameNames(saved, wanted)) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer: the checkpoint's state of ", name,
                                                   " is ", Names(saved), "; expected ",
                                                   Names(wanted)));
  }
  for (auto& [key, tensor] : state) {
    const at::Tensor from = saved.at(key);
    const bool led = slot.whole && tensor.dim() > 0;
    const at::Tensor as = led && from.dim() > 0 && from.size(0) == 1 ? from.squeeze(0) : from;
    if (as.sizes() != tensor.sizes() || (led && as.is_same(from))) {
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer: the checkpoint's state '", key, "' of ", name, " has shape [",
                       absl::StrJoin(from.sizes(), ", "), "], expected [",
                       absl::StrJoin(tensor.sizes(), ", "), "]"));
    }
    tensor.copy_(as);
  }
  return state;
}

absl::Status RuleOptimizer::LoadState(const std::map<std::string, at::Tensor>& state) {
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kOptimizer);
  std::map<std::string, UpdateRule::State> by_name;
  for (const auto& [key, tensor] : state) {
    const size_t slash = std::min(key.find('/'), key.size());
    by_name[key.substr(std::min(slash + 1, key.size()))][key.substr(0, slash)] = tensor;
  }
  std::vector<UpdateRule::State> loaded(slots_.size());
  std::vector<at::Tensor> steps(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const auto found = by_name.find(slots_[i].parameter->name());
    if (found == by_name.end()) continue;  // not updated yet
    const UpdateRule::State saved = std::move(found->second);
    by_name.erase(found);
    if (!IsMine(slots_[i])) continue;
    ASSIGN_OR_RETURN(loaded[i], Loaded(i, saved));
    if (saved.at("step").numel() != 1)
      return absl::InvalidArgumentError("optimizer: `step` is no number");
    steps[i] = saved.at("step").to(at::kFloat).to(at::kCPU).reshape({}).clone();
  }
  if (!by_name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer: the state of ", by_name.begin()->first, ", which is no parameter of it"));
  }
  for (size_t i = 0; i < slots_.size(); ++i)
    slots_[i].state = std::move(loaded[i]), slots_[i].steps = std::move(steps[i]);
  return absl::OkStatus();
}

bool RuleOptimizer::Average(bool average) {
  if (rule_.turn == nullptr) return false;
  const at::NoGradGuard no_grad;
  at::Tensor turned = at::zeros({1}, at::kLong);
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.whole || !IsMine(slot) || !slot.steps.defined()) continue;
    const at::Tensor weight = slot.parameter->weight().view({-1});
    const at::Tensor working = weight.to(slot.parameter->gradient_dtype());
    if (!rule_.turn(i, working, slot.state, average)) continue;
    turned.fill_(1);
    if (!working.is_same(weight)) weight.copy_(working);
  }
  base::ThrowIfError(options_.shards->AllReduceMax(turned));
  return turned.item<int64_t>() != 0;
}

int64_t RuleOptimizer::NewStateBytes() const {
  const at::NoGradGuard no_grad;
  int64_t bytes = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const base::Parameter& parameter = *slots_[i].parameter;
    if (!parameter.trainable()) continue;
    const std::vector<int64_t> flat = {parameter.numel()};
    const at::Tensor like =
        at::empty(slots_[i].whole ? parameter.shape() : at::IntArrayRef(flat),
                  at::TensorOptions().dtype(parameter.gradient_dtype()).device(at::kMeta));
    bytes += static_cast<int64_t>(sizeof(float));  // step counters
    for (const auto& [key, tensor] : NewState(i, like))
      bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

base::Parameters RuleOptimizer::parameters() const {
  base::Parameters parameters;
  for (const Slot& slot : slots_) parameters.push_back(slot.parameter);
  return parameters;
}

int64_t RuleOptimizer::state_bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (slot.steps.defined()) bytes += static_cast<int64_t>(slot.steps.nbytes());
    for (const auto& [key, tensor] : slot.state) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

}  // namespace moonring::trainer
