#include "trainer/optimizer/adamw.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/threads/small_work.h"
#include "kernels/adamw.h"
#include "kernels/choice.h"
#include "kernels/random/counter_random.h"
#include "trainer/optimizer/embedding_names.h"
#include "trainer/optimizer/lora_plus.h"
#include "trainer/optimizer/weight_decay.h"
#include "trainer/sharding/tensor_groups.h"

namespace moonring::trainer {
namespace {

// Weights, gradients, means, squares and steps that one launch updates, grouped by (LoRA+ rate,
// weight decay).
using TogetherGroups = TensorGroups<5, std::pair<double, double>>;

// Whether the fused kernel (kernels) can update this weight; the dtype of the moments does not
// matter.
bool IsFused(const at::Tensor& weight) {
  return weight.scalar_type() != at::kHalf && kernels::UseKernel(weight, kernels::kAdamW);
}

// `names_prefix` is that of the configuration's keys.
absl::Status CheckSettings(const AdamWOptions& options, absl::string_view names_prefix) {
  for (const auto& [name, beta] :
       {std::pair{"beta1", options.beta1}, std::pair{"beta2", options.beta2}}) {
    if (!(beta >= 0.0 && beta < 1.0))
      return absl::InvalidArgumentError(absl::StrCat("trainer.adamw: ", names_prefix, name, " is ",
                                                     beta, ", expected 0 <= it < 1"));
  }
  const std::string epsilon = absl::StrCat(names_prefix, "epsilon");
  for (const auto& [name, value] : {std::pair<absl::string_view, double>{epsilon, options.epsilon},
                                    {"weight_decay", options.weight_decay}}) {
    if (!(value >= 0.0 && std::isfinite(value)))
      return absl::InvalidArgumentError(
          absl::StrCat("trainer.adamw: ", name, " is ", value, ", expected 0 or more"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(AdamWOptions options,
                                                     base::Parameters parameters) {
  RETURN_IF_ERROR(CheckSettings(options, /*names_prefix=*/"adam_"));
  if (!(options.loraplus_ratio > 0.0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trainer.adamw: loraplus_lr_ratio is ", options.loraplus_ratio, ", expected more than 0"));
  }
  std::vector<Slot> slots;
  std::set<std::string> names;
  for (auto& parameter : parameters) {
    TORCH_CHECK(names.insert(parameter->name()).second, "trainer.adamw: parameter ",
                parameter->name(), " was given twice");
    const bool decays = options.decay_all || DecaysWeight(parameter->name());
    const double rate = LoraPlusRate(*parameter, options.loraplus_ratio);
    slots.push_back({std::move(parameter), decays, rate, {}, {}, {}, 0});
  }
  std::unique_ptr<AdamW> adamw(new AdamW(options, std::move(slots)));
  if (adamw->options_.memory == nullptr) return adamw;
  for (Slot& slot : adamw->slots_) {
    if (slot.parameter->trainable()) RETURN_IF_ERROR(adamw->MakeState(slot), "trainer.adamw");
  }
  return adamw;
}

MomentDtype AdamW::DtypeOf(const base::Parameter& parameter) const {
  const bool small =
      options_.moments == MomentDtype::k8Bit && parameter.numel() < Moment::kSmallest;
  const bool embedding = options_.full_embeddings && IsEmbedding(parameter.name());
  return small || embedding || parameter.gradient_dtype() == at::kDouble ? MomentDtype::kFull
                                                                         : options_.moments;
}

absl::StatusOr<Moment> AdamW::MakeMoment(const base::Parameter& parameter, bool is_signed) const {
  const at::Tensor& weight = parameter.weight();
  Moment moment{
      .dtype = DtypeOf(parameter), .is_signed = is_signed, .numbers = {}, .scale = {}, .codes = {}};
  const at::ScalarType dtype = StoredDtype(moment.dtype, parameter.gradient_dtype());
  if (moment.dtype == MomentDtype::k8Bit) {
    moment.scale = NewScale(weight.numel(), weight.device());
    moment.codes = codes_[is_signed];
  }
  if (options_.memory != nullptr) {
    ASSIGN_OR_RETURN(moment.numbers, options_.memory->Zeros(weight.numel(), dtype),
                     parameter.name());
  } else if (moment.dtype == MomentDtype::kFull) {
    moment.numbers = at::zeros(weight.sizes(), weight.options().dtype(dtype));
  } else {
    moment.numbers = at::zeros({weight.numel()}, weight.options().dtype(dtype));
  }
  return moment;
}

absl::Status AdamW::MakeState(Slot& slot) {
  const base::MemoryScope memory(base::MemoryPart::kOptimizer);
  const at::Tensor& weight = slot.parameter->weight();
  TORCH_CHECK(options_.memory == nullptr || (weight.dim() == 1 && weight.is_cpu()),
              "trainer.adamw: ", slot.parameter->name(), ": ", weight.sizes(), " on ",
              weight.device(),
              ", expected one dimension on the host for a state that is offloaded");
  for (const bool is_signed : {false, true}) {
    if (DtypeOf(*slot.parameter) == MomentDtype::k8Bit && !codes_[is_signed].defined())
      codes_[is_signed] = DynamicCodes(is_signed).to(weight.device());
  }
  slot.step = at::zeros({}, weight.options().dtype(at::kFloat));
  ASSIGN_OR_RETURN(slot.mean, MakeMoment(*slot.parameter, /*is_signed=*/true));
  ASSIGN_OR_RETURN(slot.square, MakeMoment(*slot.parameter, /*is_signed=*/false));
  return absl::OkStatus();
}

void AdamW::Step(double lr) { StepAll(options_, lr, /*absent_is_zero=*/false); }

absl::Status AdamW::StepWith(double lr, const StepSettings& settings) {
  AdamWOptions options = options_;
  options.beta1 = settings.beta1.value_or(options_.beta1);
  options.beta2 = settings.beta2.value_or(options_.beta2);
  options.epsilon = settings.epsilon.value_or(options_.epsilon);
  options.weight_decay = settings.weight_decay.value_or(options_.weight_decay);
  RETURN_IF_ERROR(CheckSettings(options, /*names_prefix=*/""));
  if (options.epsilon == 0.0) {
    return absl::InvalidArgumentError(
        "trainer.adamw: epsilon is 0, expected more than 0: an element whose gradients were all 0 "
        "would become NaN");
  }
  StepAll(options, lr, /*absent_is_zero=*/true);
  return absl::OkStatus();
}

void AdamW::StepAll(const AdamWOptions& options, double lr, bool absent_is_zero) {
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kOptimizer);
  int64_t elements = 0;
  for (const Slot& slot : slots_) elements += slot.parameter->numel();
  const base::SmallWorkScope small(/*rows=*/1, elements);
  TogetherGroups together;
  std::vector<const Slot*> slots;  // slots of the rows in `together`, in order of Add
  for (Slot& slot : slots_) {
    const at::Tensor& weight = slot.parameter->weight();
    at::Tensor gradient = slot.parameter->gradient();
    if (!slot.parameter->trainable() || !(gradient.defined() || absent_is_zero)) continue;
    if (!gradient.defined())
      gradient =
          at::zeros(weight.sizes(), weight.options().dtype(slot.parameter->gradient_dtype()));
    Prepare(slot, gradient);
    const double decay = slot.decays ? options.weight_decay : 0.0;
    const at::Tensor &mean = slot.mean.numbers, &square = slot.square.numbers;
    const bool fused = slot.mean.dtype != MomentDtype::k8Bit && IsFused(weight);
    const bool alike =
        slot.mean.dtype == MomentDtype::kFull && weight.scalar_type() == mean.scalar_type();
    if (options_.memory != nullptr || !(fused || alike) || !weight.is_contiguous() ||
        weight.numel() == 0) {
      StepSlot(slot, gradient, options, lr);
    } else {  // on a device, one launch per weight would take the host longer than the work
      together.Add({weight, gradient.contiguous(), mean, square, slot.step}, {slot.rate, decay});
      ++slot.made;
      slots.push_back(&slot);
    }
  }
  for (const auto& group : together.groups()) {
    const auto& [weights, gradients, means, squares, steps] = group.lists;
    at::_foreach_add_(steps, 1);
    if (IsFused(weights.front())) {
      kernels::AdamWTensors tensors{weights, gradients, means, squares, steps, {}, {}};
      for (const size_t i : group.members) {
        if (slots[i]->mean.dtype != MomentDtype::kBf16) break;  // all members have the same dtype
        tensors.keys.push_back(static_cast<int64_t>(RoundingKey(*slots[i])));
        tensors.places.push_back(slots[i]->parameter->begin());
      }
      kernels::AdamW(tensors, {.lr = lr * group.key.first,
                               .beta1 = options.beta1,
                               .beta2 = options.beta2,
                               .weight_decay = group.key.second,
                               .epsilon = options.epsilon});
      continue;
    }
    at::_fused_adamw_(weights, gradients, means, squares, {}, steps, lr * group.key.first,
                      options.beta1, options.beta2, group.key.second, options.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
}

void AdamW::Prepare(Slot& slot, const at::Tensor& gradient) {
  const at::Tensor& weight = slot.parameter->weight();
  base::CountWritten(base::MemoryPart::kWeights, weight);
  const at::ScalarType dtype = slot.parameter->gradient_dtype();
  TORCH_CHECK(gradient.sizes() == weight.sizes() && gradient.scalar_type() == dtype,
              "trainer.adamw: ", slot.parameter->name(), ": gradient ", gradient.sizes(), " of ",
              gradient.scalar_type(), ", expected ", weight.sizes(), " of ", dtype);
  if (!slot.step.defined()) base::ThrowIfError(MakeState(slot));
}

// Key for stochastic rounding: one per weight and step. One key suffices because only the squares
// are rounded stochastically.
uint64_t AdamW::RoundingKey(const Slot& slot) {
  return kernels::CounterKey(/*seed=*/0, slot.made, slot.parameter->name());
}

void AdamW::StepSlot(Slot& slot, const at::Tensor& gradient, const AdamWOptions& options,
                     double lr) const {
  const at::Tensor& weight = slot.parameter->weight();
  const bool full = slot.mean.dtype == MomentDtype::kFull;
  slot.step.add_(1);
  ++slot.made;
  if (options_.memory == nullptr && full)
    return StepPiece(slot, options, lr, weight, gradient, slot.mean.numbers, slot.square.numbers);
  const uint64_t key = RoundingKey(slot);
  const at::Tensor flat = weight.view({-1}), dense = gradient.contiguous().view({-1});
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, flat.numel() - begin),
                  place = slot.parameter->begin() + begin;
    const at::Tensor part = flat.narrow(0, begin, count),
                     mean = ReadMoment(slot.mean, begin, count),
                     square = ReadMoment(slot.square, begin, count);
    StepPiece(slot, options, lr, part, dense.narrow(0, begin, count), mean, square);
    WriteMoment(slot.mean, begin, mean, key, place);
    WriteMoment(slot.square, begin, square, key, place);
    if (options_.memory == nullptr) continue;
    options_.memory->Rest(part);
    for (const Moment* moment : {&slot.mean, &slot.square})
      options_.memory->Rest(moment->numbers.narrow(0, begin, count));
  }
}

void AdamW::StepPiece(const Slot& slot, const AdamWOptions& options, double lr,
                      const at::Tensor& weight, const at::Tensor& gradient, const at::Tensor& mean,
                      const at::Tensor& square) {
  if (weight.numel() == 0) return;
  // The kernel requires equal dtypes and layouts. `working` is the weight itself unless that is
  // bf16 or not contiguous.
  const at::Tensor working = weight.to(mean.scalar_type()).contiguous();
  const at::Tensor dense = gradient.contiguous();
  at::_fused_adamw_({working}, {dense}, {mean}, {square}, {}, {slot.step}, lr * slot.rate,
                    options.beta1, options.beta2, slot.decays ? options.weight_decay : 0.0,
                    options.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
  if (!working.is_same(weight)) weight.copy_(working);
}

std::map<std::string, at::Tensor> AdamW::SaveState() const {
  std::map<std::string, at::Tensor> state;
  for (const Slot& slot : slots_) {
    if (!slot.step.defined()) continue;
    const std::string& name = slot.parameter->name();
    state[absl::StrCat("exp_avg/", name)] = slot.mean.numbers;
    state[absl::StrCat("exp_avg_sq/", name)] = slot.square.numbers;
    state[absl::StrCat("step/", name)] = slot.step;
    if (slot.mean.dtype != MomentDtype::k8Bit) continue;
    state[absl::StrCat("exp_avg_scale/", name)] = slot.mean.scale;
    state[absl::StrCat("exp_avg_sq_scale/", name)] = slot.square.scale;
  }
  return state;
}

std::optional<AdamW::SavedSlot> AdamW::SavedSlot::Find(
    const std::map<std::string, at::Tensor>& state, const std::string& name) {
  const auto find = [&](const char* part) {
    const auto found = state.find(absl::StrCat(part, name));
    return found == state.end() ? at::Tensor() : found->second;
  };
  SavedSlot saved{find("exp_avg/"), find("exp_avg_sq/"), find("step/"), find("exp_avg_scale/"),
                  find("exp_avg_sq_scale/")};
  return saved.parts() + saved.scales() == 0 ? std::nullopt
                                             : std::optional<SavedSlot>(std::move(saved));
}

absl::Status AdamW::CheckState(const std::map<std::string, at::Tensor>& state) const {
  size_t used = 0;
  for (const Slot& slot : slots_) {
    const std::string& name = slot.parameter->name();
    const std::optional<SavedSlot> saved = SavedSlot::Find(state, name);
    if (!saved.has_value()) continue;
    used += saved->parts() + saved->scales();
    const int scales = saved->mean.defined() && saved->mean.scalar_type() == at::kByte ? 2 : 0;
    if (saved->parts() != 3 || saved->scales() != scales) {
      return absl::InvalidArgumentError(
          absl::StrCat("trainer.adamw: the state of ", name, " is incomplete"));
    }
    const at::Tensor& weight = slot.parameter->weight();
    const auto fits = [&](const at::Tensor& moment) {
      return moment.sizes() == weight.sizes() ||
             (moment.dim() == 1 && moment.numel() == weight.numel());
    };
    if (!fits(saved->mean) || !fits(saved->square) || saved->step.numel() != 1) {
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
  at::NoGradGuard no_grad;
  const base::MemoryScope memory(base::MemoryPart::kOptimizer);
  RETURN_IF_ERROR(CheckState(state));
  for (Slot& slot : slots_) {
    const std::optional<SavedSlot> saved = SavedSlot::Find(state, slot.parameter->name());
    if (saved.has_value() || options_.memory != nullptr) {
      RETURN_IF_ERROR(LoadInPlace(slot, saved), "trainer.adamw");
    } else {  // a parameter that has not been updated yet
      slot.mean = slot.square = Moment();
      slot.step = at::Tensor();
      slot.made = 0;
    }
  }
  return absl::OkStatus();
}

// Loads into the existing state tensors, because new tensors would need the same amount of memory
// (with a StateMemory: of disk space) in addition.
absl::Status AdamW::LoadInPlace(Slot& slot, const std::optional<SavedSlot>& saved) {
  if (!slot.step.defined() && !saved.has_value()) return absl::OkStatus();
  if (!slot.step.defined()) RETURN_IF_ERROR(MakeState(slot));
  if (saved.has_value()) {
    LoadMoment(slot.mean, saved->mean, saved->mean_scale);
    LoadMoment(slot.square, saved->square, saved->square_scale);
    slot.step.copy_(saved->step.reshape({}));
    slot.made = saved->step.item().toLong();
  } else {
    LoadMoment(slot.mean, at::Tensor(), at::Tensor());
    LoadMoment(slot.square, at::Tensor(), at::Tensor());
    slot.step.zero_();
    slot.made = 0;
  }
  return absl::OkStatus();
}

// Copies the saved `numbers` into the moment `held`: unchanged if both have the same dtype,
// otherwise converted and rounded to nearest. Undefined `numbers` mean zeros.
void AdamW::LoadMoment(const Moment& held, const at::Tensor& numbers,
                       const at::Tensor& scale) const {
  const bool same = !numbers.defined() || numbers.scalar_type() == held.numbers.scalar_type();
  const at::Tensor from = !numbers.defined() ? numbers
                          : same             ? numbers.reshape({-1})
                                 : DecodedMoment(numbers, scale, held.is_signed).view({-1});
  const at::Tensor flat = held.numbers.view({-1});
  if (held.scale.defined() && same) scale.defined() ? held.scale.copy_(scale) : held.scale.zero_();
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, flat.numel() - begin);
    const at::Tensor piece = flat.narrow(0, begin, count);
    if (!from.defined()) {
      piece.zero_();
    } else if (same || held.dtype != MomentDtype::k8Bit) {
      piece.copy_(from.narrow(0, begin, count));
    } else {
      WriteMoment(held, begin, from.narrow(0, begin, count).to(flat.device()), 0, 0);
    }
    if (options_.memory != nullptr) options_.memory->Rest(piece);
  }
}

base::Parameters AdamW::parameters() const {
  base::Parameters parameters;
  for (const Slot& slot : slots_) parameters.push_back(slot.parameter);
  return parameters;
}

int64_t AdamW::state_bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (slot.step.defined()) bytes += slot.mean.bytes() + slot.square.bytes() + slot.step.nbytes();
  }
  return bytes;
}

}  // namespace moonring::trainer
