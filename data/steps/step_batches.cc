#include "data/steps/step_batches.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/steps/epoch_order.h"
#include "data/steps/length_groups.h"

namespace moonring::data {
namespace {

absl::Status CheckOrder(const std::vector<int64_t>& order, int64_t examples) {
  if (static_cast<int64_t>(order.size()) != examples)
    return absl::InvalidArgumentError(
        absl::StrCat("an order of ", order.size(), " examples, there are ", examples));
  std::vector<bool> taken(examples);
  for (const int64_t example : order) {
    if (example < 0 || example >= examples)
      return absl::InvalidArgumentError(
          absl::StrCat("an order with example ", example, " of ", examples));
    if (taken[example])
      return absl::InvalidArgumentError(absl::StrCat("an order with example ", example, " twice"));
    taken[example] = true;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepBatches>> StepBatches::Create(
    const StepBatchesOptions& options) {
  if (options.examples < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("step_batches: expected at least 1 example, got ", options.examples));
  if (options.batch < 1 || options.examples_per_step % options.batch != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("step_batches: a step of ", options.examples_per_step,
                     " examples is no number of batches of ", options.batch));
  }
  if (options.examples_per_step < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step_batches: a step must take at least 1 example, got ", options.examples_per_step));
  }
  if (!options.lengths.empty() &&
      static_cast<int64_t>(options.lengths.size()) != options.examples) {
    return absl::InvalidArgumentError(absl::StrCat("step_batches: ", options.lengths.size(),
                                                   " lengths of ", options.examples, " examples"));
  }
  for (size_t epoch = 0; epoch < options.orders.size(); ++epoch)
    RETURN_IF_ERROR(CheckOrder(options.orders[epoch], options.examples), "epoch ", epoch);
  return std::unique_ptr<StepBatches>(new StepBatches(options));
}

StepBatches::StepBatches(const StepBatchesOptions& options)
    : options_(options), of_epoch_(options.examples) {
  if (options.drop_last && options.examples >= options.batch)
    of_epoch_ -= options.examples % options.batch;
}

int64_t StepBatches::steps_per_epoch() const {
  return (of_epoch_ + options_.examples_per_step - 1) / options_.examples_per_step;
}

absl::Status StepBatches::FindOrder() {
  if (!order_.empty()) return absl::OkStatus();
  if (options_.orders.empty()) {
    order_ = EpochOrder(options_.examples, options_.seed, epoch_, options_.shuffle);
    if (!options_.lengths.empty())
      order_ = GroupByLength(std::move(order_), options_.lengths, options_.examples_per_step);
    return absl::OkStatus();
  }
  if (epoch_ >= static_cast<int64_t>(options_.orders.size())) {
    return absl::OutOfRangeError(absl::StrCat(
        "step_batches: epoch ", epoch_, " has no order: ", options_.orders.size(), " were given"));
  }
  order_ = options_.orders[epoch_];
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StepBatch>> StepBatches::Next() {
  StepBatch batch{.epoch = epoch_, .step = taken_ / options_.examples_per_step};
  if (options_.total_steps.has_value() &&
      epoch_ * steps_per_epoch() + batch.step >= *options_.total_steps)
    return std::nullopt;
  RETURN_IF_ERROR(FindOrder());
  const int64_t end = std::min(taken_ + options_.examples_per_step, of_epoch_);
  batch.examples.assign(order_.begin() + taken_, order_.begin() + end);
  taken_ = end;
  batch.last = taken_ == of_epoch_;
  if (batch.last) {
    ++epoch_;
    taken_ = 0;
    order_.clear();
  }
  return batch;
}

std::string StepBatches::SaveState() const {
  return nlohmann::json{{"stage", "step_batches"}, {"examples", options_.examples},
                        {"seed", options_.seed},   {"shuffle", options_.shuffle},
                        {"of_epoch", of_epoch_},   {"epoch", epoch_},
                        {"taken", taken_},         {"grouped", grouped()}}
      .dump();
}

absl::Status StepBatches::LoadState(absl::string_view state) {
  const nlohmann::json saved = nlohmann::json::parse(state, nullptr, /*allow_exceptions=*/false);
  const auto integer = [&](const char* key) {
    return saved.contains(key) && saved[key].is_number_integer();
  };
  if (!saved.is_object() || saved.value("stage", nlohmann::json()) != "step_batches" ||
      !integer("examples") || !integer("seed") || !integer("epoch") || !integer("of_epoch") ||
      !integer("taken") || !saved.contains("shuffle") || !saved["shuffle"].is_boolean()) {
    return absl::InvalidArgumentError("step_batches: not a state that step batches saved");
  }
  const nlohmann::json mine = {{"examples", options_.examples},
                               {"seed", options_.seed},
                               {"shuffle", options_.shuffle},
                               {"of_epoch", of_epoch_},
                               {"grouped", grouped()}};
  for (const auto& [key, value] : mine.items()) {
    // older states have no "grouped"
    const nlohmann::json then = saved.value(key, nlohmann::json(0));
    if (then == value) continue;
    const absl::string_view what =
        key == "of_epoch"  ? "examples of an epoch (dataloader_drop_last leaves some out)"
        : key == "grouped" ? "examples of a batch that is grouped by length (0: none is)"
                           : absl::string_view(key);
    return absl::FailedPreconditionError(absl::StrCat(
        what, " was ", then.dump(), ", is ", value.dump(), ": the order of examples would differ"));
  }
  const int64_t epoch = saved["epoch"], taken = saved["taken"];
  constexpr int64_t kMostEpochs = int64_t{1}
                                  << 62;  // bound that prevents overflow in later additions
  if (epoch < 0 || epoch >= kMostEpochs || taken < 0 || taken >= of_epoch_)
    return absl::InvalidArgumentError("step_batches: the saved state is broken");
  if (taken % options_.examples_per_step != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("step_batches: the state was saved after ", taken,
                     " examples of the epoch, which no whole number of steps of ",
                     options_.examples_per_step, " examples makes"));
  }
  epoch_ = epoch;
  taken_ = taken;
  order_.clear();
  return absl::OkStatus();
}

}  // namespace moonring::data
