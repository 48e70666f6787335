#include "trainer/adamw.h"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "comm/memory_account.h"
#include "comm/small_work.h"
#include "comm/status_macros.h"
#include "comm/torch_status.h"
#include "trainer/lora_plus.h"
#include "trainer/weight_decay.h"

namespace moonring::trainer {

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(AdamWOptions options, comm::Parameters parameters) {
  for (const auto& [name, beta] : {std::pair{"adam_beta1", options.beta1}, std::pair{"adam_beta2", options.beta2}}) {
    if (!(beta >= 0.0 && beta < 1.0)) return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: ", name, " is ", beta, ", wanted 0 <= it < 1"));
  }
  for (const auto& [name, value] : {std::pair{"adam_epsilon", options.epsilon}, std::pair{"weight_decay", options.weight_decay}}) {
    if (!(value >= 0.0)) return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: ", name, " is ", value, ", wanted 0 or more"));
  }
  if (!(options.loraplus_ratio > 0.0)) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: loraplus_lr_ratio is ", options.loraplus_ratio, ", wanted more than 0"));
  }
  std::vector<Slot> slots;
  std::set<std::string> names;
  for (auto& parameter : parameters) {
    TORCH_CHECK(names.insert(parameter->name()).second, "trainer.adamw: parameter ", parameter->name(), " was given twice");
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
  TORCH_CHECK(weight.dim() == 1 && weight.is_cpu(), "trainer.adamw: ", slot.parameter->name(), ": ", weight.sizes(), " on ", weight.device(),
              ", wanted one dimension on the host for a state that is offloaded");
  ASSIGN_OR_RETURN(slot.mean, options_.memory->Zeros(weight.numel(), dtype), slot.parameter->name());
  ASSIGN_OR_RETURN(slot.square, options_.memory->Zeros(weight.numel(), dtype), slot.parameter->name());
  return absl::OkStatus();
}

void AdamW::Step(double lr) {
  at::NoGradGuard no_grad;
  const comm::MemoryScope memory(comm::MemoryPart::kOptimizer);
  int64_t elements = 0;
  for (const Slot& slot : slots_) elements += slot.parameter->numel();
  const comm::SmallWorkScope small(/*rows=*/1, elements);
  for (Slot& slot : slots_) {
    if (slot.parameter->trainable() && slot.parameter->gradient().defined()) StepSlot(slot, lr);
  }
}

void AdamW::StepSlot(Slot& slot, double lr) const {
  at::Tensor& weight = slot.parameter->weight();
  comm::CountWritten(comm::MemoryPart::kWeights, weight);
  const at::Tensor& gradient = slot.parameter->gradient();
  const at::ScalarType dtype = slot.parameter->gradient_dtype();
  TORCH_CHECK(gradient.sizes() == weight.sizes() && gradient.scalar_type() == dtype, "trainer.adamw: ", slot.parameter->name(), ": gradient ", gradient.sizes(),
              " of ", gradient.scalar_type(), ", wanted ", weight.sizes(), " of ", dtype);
  if (!slot.step.defined()) comm::ThrowIfError(MakeState(slot));
  slot.step.add_(1);
  if (options_.memory == nullptr) return StepPiece(slot, lr, weight, gradient, slot.mean, slot.square);
  for (int64_t begin = 0; begin < weight.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, weight.numel() - begin);
    const at::Tensor part = weight.narrow(0, begin, count), mean = slot.mean.narrow(0, begin, count), square = slot.square.narrow(0, begin, count);
    StepPiece(slot, lr, part, gradient.narrow(0, begin, count), mean, square);
    for (const at::Tensor& piece : {part, mean, square}) options_.memory->Rest(piece);
  }
}

void AdamW::StepPiece(const Slot& slot, double lr, const at::Tensor& weight, const at::Tensor& gradient, const at::Tensor& mean,
                      const at::Tensor& square) const {
  if (weight.numel() == 0) return;
  // The kernel wants all four alike; `working` is the weight itself but for bf16 (or an odd layout).
  const at::Tensor working = weight.to(mean.scalar_type()).contiguous();
  const at::Tensor dense = gradient.contiguous();
  at::_fused_adamw_({working}, {dense}, {mean}, {square}, {}, {slot.step}, lr * slot.rate, options_.beta1, options_.beta2, slot.weight_decay, options_.epsilon,
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

absl::Status AdamW::LoadState(const std::map<std::string, at::Tensor>& state) {
  const comm::MemoryScope memory(comm::MemoryPart::kOptimizer);
  std::vector<Slot> loaded = slots_;
  size_t used = 0;
  for (Slot& slot : loaded) {
    const std::string& name = slot.parameter->name();
    const auto mean = state.find(absl::StrCat("exp_avg/", name)), square = state.find(absl::StrCat("exp_avg_sq/", name)),
               step = state.find(absl::StrCat("step/", name));
    const int found = (mean != state.end()) + (square != state.end()) + (step != state.end());
    used += found;
    slot.mean = slot.square = slot.step = at::Tensor();
    if (found == 0) continue;  // a parameter that has made no step yet
    if (found != 3) return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: the state of ", name, " is incomplete"));
    const at::Tensor& weight = slot.parameter->weight();
    if (mean->second.sizes() != weight.sizes() || square->second.sizes() != weight.sizes() || step->second.numel() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: the state of ", name, " has another shape than its weight"));
    }
    const auto options = weight.options().dtype(slot.parameter->gradient_dtype());
    if (options_.memory != nullptr) {
      RETURN_IF_ERROR(MakeState(slot), "trainer.adamw");
      slot.mean.copy_(mean->second);
      slot.square.copy_(square->second);
    } else {
      slot.mean = mean->second.to(options, /*non_blocking=*/false, /*copy=*/true).contiguous();
      slot.square = square->second.to(options, /*non_blocking=*/false, /*copy=*/true).contiguous();
    }
    slot.step = step->second.to(weight.options().dtype(at::kFloat), /*non_blocking=*/false, /*copy=*/true).reshape({});
  }
  if (used != state.size()) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: the state holds ", state.size(), " tensors, of which ", used, " belong to the parameters"));
  }
  slots_ = std::move(loaded);
  return absl::OkStatus();
}

int64_t AdamW::state_bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (slot.step.defined()) bytes += slot.mean.nbytes() + slot.square.nbytes() + slot.step.nbytes();
  }
  return bytes;
}

}  // namespace moonring::trainer
