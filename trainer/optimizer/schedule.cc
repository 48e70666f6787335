#include "trainer/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"

namespace moonring::trainer {
namespace {

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("trainer.schedule: ", what));
}

// Rejects values that are invalid for every schedule.
absl::Status CheckNumbers(const ScheduleOptions& o) {
  if (!std::isfinite(o.learning_rate) || o.learning_rate < 0.0)
    return Invalid(absl::StrCat("learning_rate is ", o.learning_rate, ", expected 0 or more"));
  if (o.warmup_steps < 0)
    return Invalid(absl::StrCat("warmup_steps is ", o.warmup_steps, ", expected 0 or more"));
  if (!(o.warmup_ratio >= 0.0 && o.warmup_ratio <= 1.0))
    return Invalid(absl::StrCat("warmup_ratio is ", o.warmup_ratio, ", expected 0 to 1"));
  if (o.total_steps < 0)
    return Invalid(absl::StrCat("total_steps is ", o.total_steps, ", expected 0 or more"));
  const std::pair<const char*, std::optional<double>> numbers[] = {
      {"num_cycles", o.num_cycles},
      {"min_lr", o.min_lr},
      {"min_lr_rate", o.min_lr_rate},
      {"warmup_lr_rate", o.warmup_lr_rate},
      {"lr_end", o.lr_end},
      {"power", o.power},
      {"min_lr_ratio", o.min_lr_ratio},
      {"num_stable_steps", o.num_stable_steps},
      {"num_decay_steps", o.num_decay_steps}};
  for (const auto& [name, value] : numbers) {
    if (value.has_value() && !(std::isfinite(*value) && *value >= 0.0))
      return Invalid(
          absl::StrCat("lr_scheduler_kwargs: ", name, " is ", *value, ", expected 0 or more"));
  }
  return absl::OkStatus();
}

std::vector<std::string> Given(const ScheduleOptions& o) {
  std::vector<std::string> names;
  const auto look = [&](const char* name, const auto& value) {
    if (value.has_value()) names.push_back(name);
  };
  look("num_cycles", o.num_cycles);
  look("min_lr", o.min_lr);
  look("min_lr_rate", o.min_lr_rate);
  look("warmup_lr_rate", o.warmup_lr_rate);
  look("lr_end", o.lr_end);
  look("power", o.power);
  look("min_lr_ratio", o.min_lr_ratio);
  look("num_stable_steps", o.num_stable_steps);
  look("num_decay_steps", o.num_decay_steps);
  look("warmup_type", o.warmup_type);
  look("decay_type", o.decay_type);
  return names;
}

double Wave(double cycles, double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * cycles * 2.0 * progress));
}

}  // namespace

absl::StatusOr<Schedule::KindRow> Schedule::FindKind(const std::string& name) {
  std::vector<KindRow> rows = {
      {"linear", Kind::kLinear, {}},
      {"cosine", Kind::kCosine, {"num_cycles"}},
      {"cosine_with_restarts", Kind::kCosineWithRestarts, {"num_cycles"}},
      {"cosine_with_min_lr", Kind::kCosineWithMinLr, {"num_cycles", "min_lr", "min_lr_rate"}},
      {"cosine_warmup_with_min_lr",
       Kind::kCosineWarmupWithMinLr,
       {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"}},
      {"polynomial", Kind::kPolynomial, {"lr_end", "power"}},
      {"inverse_sqrt", Kind::kInverseSqrt, {}},
      {"warmup_stable_decay",
       Kind::kWarmupStableDecay,
       {"num_stable_steps", "num_decay_steps", "warmup_type", "decay_type", "min_lr_ratio",
        "num_cycles"}},
      {"constant_with_warmup", Kind::kConstantWithWarmup, {}},
      {"constant", Kind::kConstant, {}},
  };
  std::vector<std::string> names;
  for (KindRow& row : rows) {
    if (name == row.name) return std::move(row);
    names.push_back(row.name);
  }
  if (name == "reduce_lr_on_plateau")
    return absl::UnimplementedError(
        "trainer.schedule: lr_scheduler_type reduce_lr_on_plateau is not supported yet");
  return Invalid(absl::StrCat("unknown lr_scheduler_type '", name, "'",
                              base::DidYouMean(name, names), ", expected ",
                              absl::StrJoin(names, ", ")));
}

absl::StatusOr<Schedule> Schedule::Create(const ScheduleOptions& options) {
  RETURN_IF_ERROR(CheckNumbers(options));
  ASSIGN_OR_RETURN(const KindRow row, FindKind(options.kind));
  for (const std::string& name : Given(options)) {
    if (absl::c_linear_search(row.options, name)) continue;
    return Invalid(absl::StrCat("lr_scheduler_kwargs: ", name, ": lr_scheduler_type ", row.name,
                                " takes ",
                                row.options.empty() ? "none" : absl::StrJoin(row.options, ", ")));
  }
  Schedule schedule;
  schedule.kind_ = row.kind;
  schedule.learning_rate_ = options.learning_rate;
  schedule.total_steps_ = options.total_steps;
  if (row.kind != Kind::kConstant) {
    schedule.warmup_steps_ =
        options.warmup_steps > 0
            ? options.warmup_steps
            : static_cast<int64_t>(
                  std::ceil(static_cast<double>(options.total_steps) * options.warmup_ratio));
  }
  schedule.cycles_ = options.num_cycles.value_or(row.kind == Kind::kCosineWithRestarts ? 1.0 : 0.5);
  if (row.kind == Kind::kCosineWithMinLr || row.kind == Kind::kCosineWarmupWithMinLr) {
    if (options.min_lr.has_value() == options.min_lr_rate.has_value())
      return Invalid(absl::StrCat(
          options.min_lr.has_value() ? "lr_scheduler_kwargs: " : "lr_scheduler_type: ", row.name,
          " requires one of min_lr and min_lr_rate in lr_scheduler_kwargs"));
    schedule.floor_ =
        options.min_lr.has_value() ? *options.min_lr / options.learning_rate : *options.min_lr_rate;
    schedule.warmup_lr_rate_ = options.warmup_lr_rate;
  }
  schedule.lr_end_ = options.lr_end.value_or(schedule.lr_end_);
  schedule.power_ = options.power.value_or(schedule.power_);
  if (row.kind == Kind::kPolynomial && !(schedule.lr_end_ < options.learning_rate)) {
    return Invalid(absl::StrCat("lr_scheduler_kwargs: lr_end is ", schedule.lr_end_,
                                ", expected less than learning_rate, ", options.learning_rate));
  }
  if (row.kind == Kind::kWarmupStableDecay) {
    const int64_t rest = std::max<int64_t>(0, options.total_steps - schedule.warmup_steps_);
    schedule.stable_steps_ = options.num_stable_steps.value_or(rest / 3);
    schedule.decay_steps_ = options.num_decay_steps.value_or(rest - rest / 3);
    schedule.floor_ = options.min_lr_ratio.value_or(0.0);
    const std::vector<std::string> curves = {"linear", "cosine", "1-sqrt"};
    for (const auto& [name, asked, curve] :
         {std::tuple{"warmup_type", &options.warmup_type, &schedule.warmup_curve_},
          std::tuple{"decay_type", &options.decay_type, &schedule.decay_curve_}}) {
      if (!asked->has_value()) continue;
      const auto found = absl::c_find(curves, **asked);
      if (found == curves.end()) {
        return Invalid(absl::StrCat("lr_scheduler_kwargs: ", name, ": expected ",
                                    absl::StrJoin(curves, ", "), ", got '", **asked, "'",
                                    base::DidYouMean(**asked, curves)));
      }
      *curve = static_cast<Curve>(found - curves.begin());
    }
  }
  return schedule;
}

double Schedule::At(int64_t step_index) const {
  TORCH_CHECK(step_index >= 0, "trainer.schedule: step index ", step_index, ", expected 0 or more");
  return learning_rate_ * Factor(step_index);
}

double Schedule::Warmup(int64_t step_index) const {
  const double step = static_cast<double>(step_index), warmup = static_cast<double>(warmup_steps_);
  if (kind_ == Kind::kCosineWarmupWithMinLr) {
    if (!warmup_lr_rate_.has_value()) return (step + 1.0) / warmup;
    return *warmup_lr_rate_ + (1.0 - *warmup_lr_rate_) * step / std::max(1.0, warmup - 1.0);
  }
  if (kind_ != Kind::kWarmupStableDecay) return step / warmup;
  const double progress = step / warmup;
  double factor = progress;
  if (warmup_curve_ == Curve::kCosine) factor = 0.5 * (1.0 - std::cos(std::numbers::pi * progress));
  if (warmup_curve_ == Curve::kOneMinusSqrt) factor = 1.0 - std::sqrt(1.0 - progress);
  return std::max(0.0, factor * (1.0 - floor_) + floor_);
}

double Schedule::StableDecay(int64_t step_index) const {
  const int64_t decayed = step_index - warmup_steps_ - stable_steps_;
  if (decayed < 0) return 1.0;
  if (decayed >= decay_steps_) return floor_;
  const double progress = static_cast<double>(decayed) / static_cast<double>(decay_steps_);
  double factor = 1.0 - progress;
  if (decay_curve_ == Curve::kCosine) factor = Wave(cycles_, progress);
  if (decay_curve_ == Curve::kOneMinusSqrt) factor = 1.0 - std::sqrt(progress);
  return std::max(0.0, factor * (1.0 - floor_) + floor_);
}

double Schedule::Factor(int64_t step_index) const {
  if (step_index < warmup_steps_) return Warmup(step_index);
  const double step = static_cast<double>(step_index), warmup = static_cast<double>(warmup_steps_);
  const double rest = static_cast<double>(std::max<int64_t>(1, total_steps_ - warmup_steps_));
  const double progress = (step - warmup) / rest;
  switch (kind_) {
    case Kind::kLinear:
      return std::max(0.0, static_cast<double>(total_steps_ - step_index) / rest);
    case Kind::kCosine:
      return std::max(0.0, Wave(cycles_, progress));
    case Kind::kCosineWithRestarts:
      return progress >= 1.0
                 ? 0.0
                 : std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi *
                                                       std::fmod(cycles_ * progress, 1.0))));
    case Kind::kCosineWithMinLr:
      return std::max(0.0, Wave(cycles_, progress) * (1.0 - floor_) + floor_);
    case Kind::kCosineWarmupWithMinLr:
      return std::max(0.0, Wave(cycles_, (step - warmup + 1.0) / rest) * (1.0 - floor_) + floor_);
    case Kind::kPolynomial: {
      if (step_index > total_steps_) return lr_end_ / learning_rate_;
      const double left =
          total_steps_ == warmup_steps_
              ? 0.0
              : 1.0 - (step - warmup) / static_cast<double>(total_steps_ - warmup_steps_);
      return ((learning_rate_ - lr_end_) * std::pow(left, power_) + lr_end_) / learning_rate_;
    }
    case Kind::kInverseSqrt: {
      const double scale = warmup_steps_ > 0 ? warmup : 10000.0;
      return 1.0 / std::sqrt((step + (scale - warmup)) / scale);
    }
    case Kind::kWarmupStableDecay:
      return StableDecay(step_index);
    case Kind::kConstantWithWarmup:
    case Kind::kConstant:
      return 1.0;
  }
  TORCH_INTERNAL_ASSERT(false);
}

}  // namespace moonring::trainer
