#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"

namespace moonring::trainer {

absl::StatusOr<Schedule> Schedule::Create(const ScheduleOptions& options) {
  if (!std::isfinite(options.learning_rate) || options.learning_rate < 0.0) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.schedule: learning_rate is ", options.learning_rate, ", wanted 0 or more"));
  }
  if (options.warmup_steps < 0)
    return absl::InvalidArgumentError(absl::StrCat("trainer.schedule: warmup_steps is ", options.warmup_steps, ", wanted 0 or more"));
  if (!(options.warmup_ratio >= 0.0 && options.warmup_ratio <= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.schedule: warmup_ratio is ", options.warmup_ratio, ", wanted 0 to 1"));
  }
  if (options.total_steps < 0) return absl::InvalidArgumentError(absl::StrCat("trainer.schedule: total_steps is ", options.total_steps, ", wanted 0 or more"));

  Kind kind;
  if (options.kind == "linear") {
    kind = Kind::kLinear;
  } else if (options.kind == "cosine") {
    kind = Kind::kCosine;
  } else if (options.kind == "constant") {
    kind = Kind::kConstant;
  } else if (options.kind == "constant_with_warmup") {
    kind = Kind::kConstantWithWarmup;
  } else {
    for (const char* known : {"cosine_with_restarts", "polynomial", "inverse_sqrt", "reduce_lr_on_plateau", "cosine_with_min_lr", "warmup_stable_decay"}) {
      if (options.kind == known) return absl::UnimplementedError(absl::StrCat("trainer.schedule: lr_scheduler_type ", options.kind, " is not supported yet"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("trainer.schedule: unknown lr_scheduler_type '", options.kind, "', wanted linear, cosine, constant or constant_with_warmup"));
  }
  const int64_t warmup =
      options.warmup_steps > 0 ? options.warmup_steps : static_cast<int64_t>(std::ceil(static_cast<double>(options.total_steps) * options.warmup_ratio));
  return Schedule(kind, options.learning_rate, kind == Kind::kConstant ? 0 : warmup, options.total_steps);
}

double Schedule::At(int64_t step_index) const {
  TORCH_CHECK(step_index >= 0, "trainer.schedule: step index ", step_index, ", wanted 0 or more");
  return learning_rate_ * Factor(step_index);
}

// In doubles and in Transformers' order of operations, so that a curve is the same to the last bit.
double Schedule::Factor(int64_t step_index) const {
  const double step = static_cast<double>(step_index), warmup = static_cast<double>(warmup_steps_);
  if (step_index < warmup_steps_) return step / warmup;
  const double rest = static_cast<double>(std::max<int64_t>(1, total_steps_ - warmup_steps_));
  switch (kind_) {
    case Kind::kLinear:
      return std::max(0.0, static_cast<double>(total_steps_ - step_index) / rest);
    case Kind::kCosine:
      return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * 0.5 * 2.0 * ((step - warmup) / rest))));
    case Kind::kConstant:
    case Kind::kConstantWithWarmup:
      return 1.0;
  }
  TORCH_INTERNAL_ASSERT(false);
}

}  // namespace moonring::trainer
