#include "trainer/adamw.h"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "comm/kernels/adamw.h"
#include "comm/kernels/choice.h"
#include "comm/memory/memory_account.h"
#include "comm/status/status_macros.h"
#include "comm/status/torch_status.h"
#include "comm/threads/small_work.h"
#include "trainer/lora_plus.h"
#include "trainer/tensor_groups.h"
#include "trainer/weight_decay.h"

namespace moonring::trainer {
namespace {

// Weights, gradients, means, squares and steps that one launch takes, by (LoRA+'s ratio, decay).
using TogetherGroups = TensorGroups<5, std::pair<double, double>>;

// Whether one kernel steps such weights, whatever dtype their states have (comm/kernels).
bool IsFused(const at::Tensor& weight) {
  return weight.scalar_type() != at::kHalf && kernels::UseKernel(weight, kernels::kAdamW);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(AdamWOptions options,
                                                     comm::Parameters parameters) {
  for (const auto& [name, beta] :
       {std::pair{"adam_beta1", options.beta1}, std::pair{"adam_beta2", options.beta2}}) {
    if (!(beta >= 0.0 && beta < 1.0))
      return absl::InvalidArgumentError(
          absl::StrCat("trainer.adamw: ", name, " is ", beta, ", wanted 0 <= it < 1"));
  }
  for (const auto& [name, value] : {std::pair{"adam_epsilon", options.epsilon},
                                    std::pair{"weight_decay", options.weight_decay}}) {
    if (!(value >= 0.0))
      return absl::InvalidArgumentError(
          absl::StrCat("trainer.adamw: ", name, " is ", value, ", wanted 0 or more"));
  }
  if (!(options.loraplus_ratio > 0.0)) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: loraplus_lr_ratio is ",
                                                   options.loraplus_ratio, ", wanted more than 0"));
  }
  std::vector<Slot> slots;
  std::set<std::string> names;
  for (auto& parameter : parameters) {
    TORCH_CHECK(names.insert(parameter->name()).second, "trainer.adamw: parameter ",
                parameter->name(), " was given twice");
    const double decay = DecaysWeight(parameter->name()) ? options.weight_decay : 0.0;
    const double rate = LoraPlusRate(*parameter, options.loraplus_ratio);
    slots.push_back({std::move(parameter), decay, rate, {}, {}, {}});
  }
  std::unique_ptr<AdamW> adamw(new AdamW(options, std::move(slots)));
  if (adamw->options_.memory == nullptr) return adamw;
  for (Slot& slot : adamw->slots_) {
    if (slot.parameter->trainable()) RETURN_IF_ERROR(adamw->MakeState(slot), "trainer.adamw");
  }
  return adamw;
}

absl::Status AdamW::MakeState(Slot& slot) const {
  const comm::MemoryScope memory(comm::MemoryPart::kOptimizer);
  const at::Tensor& weight = slot.parameter->weight();
  const at::ScalarType dtype = slot.parameter->gradient_dtype();
  slot.step = at::zeros({}, weight.options().dtype(at::kFloat));
  if (options_.memory == nullptr) {
    slot.mean = at::zeros(weight.sizes(), weight.options().dtype(dtype));
    slot.square = at::zeros_like(slot.mean);
    return absl::OkStatus();
  }
  TORCH_CHECK(weight.dim() == 1 && weight.is_cpu(), "trainer.adamw: ", slot.parameter->name(), ": ",
              weight.sizes(), " on ", weight.device(),
              ", wanted one dimension on the host for a state that is offloaded");
  ASSIGN_OR_RETURN(slot.mean, options_.memory->Zeros(weight.numel(), dtype),
                   slot.parameter->name());
  ASSIGN_OR_RETURN(slot.square, options_.memory->Zeros(weight.numel(), dtype),
                   slot.parameter->name());
  return absl::OkStatus();
}

void AdamW::Step(double lr) {
  at::NoGradGuard no_grad;
  const comm::MemoryScope memory(comm::MemoryPart::kOptimizer);
  int64_t elements = 0;
  for (const Slot& slot : slots_) elements += slot.parameter->numel();
  const comm::SmallWorkScope small(/*rows=*/1, elements);
  TogetherGroups together;
  for (Slot& slot : slots_) {
    if (!slot.parameter->trainable() || !slot.parameter->gradient().defined()) continue;
    Prepare(slot);
    const at::Tensor& weight = slot.parameter->weight();
    const bool fits = weight.is_contiguous() &&
                      (weight.scalar_type() == slot.mean.scalar_type() || IsFused(weight));
    if (options_.memory != nullptr || !fits || weight.numel() == 0) {
      StepSlot(slot, lr);
    } else {  // for a device each launch by itself would take the host longer than the work
      together.Add(
          {weight, slot.parameter->gradient().contiguous(), slot.mean, slot.square, slot.step},
          {slot.rate, slot.weight_decay});
    }
  }
  for (const auto& group : together.groups()) {
    const auto& [weights, gradients, means, squares, steps] = group.lists;
    at::_foreach_add_(steps, 1);
    if (IsFused(weights.front())) {
      kernels::AdamW({weights, gradients, means, squares, steps}, {.lr = lr * group.key.first,
                                                                   .beta1 = options_.beta1,
                                                                   .beta2 = options_.beta2,
                                                                   .weight_decay = group.key.second,
                                                                   .epsilon = options_.epsilon});
      continue;
    }
    at::_fused_adamw_(weights, gradients, means, squares, {}, steps, lr * group.key.first,
                      options_.beta1, options_.beta2, group.key.second, options_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
}

void AdamW::Prepare(Slot& slot) const {
  const at::Tensor& weight = slot.parameter->weight();
  comm::CountWritten(comm::MemoryPart::kWeights, weight);
  const at::Tensor& gradient = slot.parameter->gradient();
  const at::ScalarType dtype = slot.parameter->gradient_dtype();
  TORCH_CHECK(gradient.sizes() == weight.sizes() && gradient.scalar_type() == dtype,
              "trainer.adamw: ", slot.parameter->name(), ": gradient ", gradient.sizes(), " of ",
              gradient.scalar_type(), ", wanted ", weight.sizes(), " of ", dtype);
  if (!slot.step.defined()) comm::ThrowIfError(MakeState(slot));
}

void AdamW::StepSlot(Slot& slot, double lr) const {
  const at::Tensor &weight = slot.parameter->weight(), &gradient = slot.parameter->gradient();
  slot.step.add_(1);
  if (options_.memory == nullptr)
    return StepPiece(slot, lr, weight, gradient, slot.mean, slot.square);
  for (int64_t begin = 0; begin < weight.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, weight.numel() - begin);
    const at::Tensor part = weight.narrow(0, begin, count),
                     mean = slot.mean.narrow(0, begin, count),
                     square = slot.square.narrow(0, begin, count);
    StepPiece(slot, lr, part, gradient.narrow(0, begin, count), mean, square);
    for (const at::Tensor& piece : {part, mean, square}) options_.memory->Rest(piece);
  }
}

void AdamW::StepPiece(const Slot& slot, double lr, const at::Tensor& weight,
                      const at::Tensor& gradient, const at::Tensor& mean,
                      const at::Tensor& square) const {
  if (weight.numel() == 0) return;
  // The kernel wants all four alike; `working` is the weight itself but for bf16 (or an odd
  // layout).
  const at::Tensor working = weight.to(mean.scalar_type()).contiguous();
  const at::Tensor dense = gradient.contiguous();
  at::_fused_adamw_({working}, {dense}, {mean}, {square}, {}, {slot.step}, lr * slot.rate,
                    options_.beta1, options_.beta2, slot.weight_decay, options_.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
  if (!working.is_same(weight)) weight.copy_(working);
}

std::map<std::string, at::Tensor> AdamW::SaveState() const {
  std::map<std::string, at::Tensor> state;
  for (const Slot& slot : slots_) {
    if (!slot.step.defined()) continue;
    state[absl::StrCat("exp_avg/", slot.parameter->name())] = slot.mean;
    state[absl::StrCat("exp_avg_sq/", slot.parameter->name())] = slot.square;
    state[absl::StrCat("step/", slot.parameter->name())] = slot.step;
  }
  return state;
}

std::optional<AdamW::SavedSlot> AdamW::SavedSlot::Find(
    const std::map<std::string, at::Tensor>& state, const std::string& name) {
  const auto find = [&](const char* part) {
    const auto found = state.find(absl::StrCat(part, name));
    return found == state.end() ? at::Tensor() : found->second;
  };
  SavedSlot saved{find("exp_avg/"), find("exp_avg_sq/"), find("step/")};
  return saved.parts() == 0 ? std::nullopt : std::optional<SavedSlot>(std::move(saved));
}

absl::Status AdamW::CheckState(const std::map<std::string, at::Tensor>& state) const {
  size_t used = 0;
  for (const Slot& slot : slots_) {
    const std::string& name = slot.parameter->name();
    const std::optional<SavedSlot> saved = SavedSlot::Find(state, name);
    if (!saved.has_value()) continue;
    used += saved->parts();
    if (saved->parts() != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("trainer.adamw: the state of ", name, " is incomplete"));
    }
    const at::IntArrayRef shape = slot.parameter->weight().sizes();
    if (saved->mean.sizes() != shape || saved->square.sizes() != shape ||
        saved->step.numel() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("trainer.adamw: the state of ", name, " has another shape than its weight"));
    }
  }
  if (used == state.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: the state holds ", state.size(),
                                                 " tensors, of which ", used,
                                                 " belong to the parameters"));
}

absl::Status AdamW::LoadState(const std::map<std::string, at::Tensor>& state) {
  const comm::MemoryScope memory(comm::MemoryPart::kOptimizer);
  RETURN_IF_ERROR(CheckState(state));
  for (Slot& slot : slots_) {
    const std::optional<SavedSlot> saved = SavedSlot::Find(state, slot.parameter->name());
    if (options_.memory != nullptr) {
      RETURN_IF_ERROR(LoadInPlace(slot, saved), "trainer.adamw");
    } else if (!saved.has_value()) {  // a parameter that has made no step yet
      slot.mean = slot.square = slot.step = at::Tensor();
    } else {
      const at::TensorOptions weight = slot.parameter->weight().options();
      const auto copy = [](const at::Tensor& tensor, const at::TensorOptions& as) {
        return tensor.to(as, /*non_blocking=*/false, /*copy=*/true);
      };
      const at::TensorOptions as = weight.dtype(slot.parameter->gradient_dtype());
      slot.mean = copy(saved->mean, as).contiguous();
      slot.square = copy(saved->square, as).contiguous();
      slot.step = copy(saved->step, weight.dtype(at::kFloat)).reshape({});
    }
  }
  return absl::OkStatus();
}

// Into the memory that the state has: a second one would take as much room again, which a disk
// keeps.
absl::Status AdamW::LoadInPlace(Slot& slot, const std::optional<SavedSlot>& saved) const {
  if (!slot.step.defined() && !saved.has_value()) return absl::OkStatus();
  if (!slot.step.defined()) RETURN_IF_ERROR(MakeState(slot));
  const auto load = [&](const at::Tensor& held, const at::Tensor& from) {
    for (int64_t begin = 0; begin < held.numel(); begin += kPiece) {
      const int64_t count = std::min(kPiece, held.numel() - begin);
      at::Tensor piece = held.narrow(0, begin, count);
      from.defined() ? piece.copy_(from.narrow(0, begin, count)) : piece.zero_();
      options_.memory->Rest(piece);
    }
  };
  load(slot.mean, saved.has_value() ? saved->mean : at::Tensor());
  load(slot.square, saved.has_value() ? saved->square : at::Tensor());
  saved.has_value() ? slot.step.copy_(saved->step.reshape({})) : slot.step.zero_();
  return absl::OkStatus();
}

int64_t AdamW::state_bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (slot.step.defined())
      bytes += slot.mean.nbytes() + slot.square.nbytes() + slot.step.nbytes();
  }
  return bytes;
}

}  // namespace moonring::trainer
