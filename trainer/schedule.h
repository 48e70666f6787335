#ifndef MOONRING_TRAINER_SCHEDULE_H_
#define MOONRING_TRAINER_SCHEDULE_H_

// The learning rate of each step, as Transformers' get_scheduler has it. With w warm-up steps, n steps in all, step index k = 0, 1, ...:
//
//   k < w                   lr * k / w                                   (so the first step of a warm-up moves nothing)
//   linear                  lr * max(0, (n - k) / max(1, n - w))
//   cosine                  lr * max(0, (1 + cos(pi * (k - w) / max(1, n - w))) / 2)
//   constant_with_warmup    lr
//   constant                lr, and no warm-up either
//
// w is warmup_steps where that is above 0, else ceil(warmup_ratio * n).

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace moonring::trainer {

struct ScheduleOptions {
  std::string kind = "linear";  // LLaMA-Factory's lr_scheduler_type
  double learning_rate = 5e-5;
  int64_t warmup_steps = 0;
  double warmup_ratio = 0.0;
  int64_t total_steps = 0;
};

class Schedule {
 public:
  // InvalidArgument for a number out of range or an unknown kind; Unimplemented for a kind of Transformers' that is not here.
  static absl::StatusOr<Schedule> Create(const ScheduleOptions& options);

  // What step `step_index` (0-based) uses.
  double At(int64_t step_index) const;
  int64_t warmup_steps() const { return warmup_steps_; }

 private:
  enum class Kind { kLinear, kCosine, kConstant, kConstantWithWarmup };
  Schedule(Kind kind, double learning_rate, int64_t warmup_steps, int64_t total_steps)
      : kind_(kind), learning_rate_(learning_rate), warmup_steps_(warmup_steps), total_steps_(total_steps) {}
  double Factor(int64_t step_index) const;

  Kind kind_;
  double learning_rate_;
  int64_t warmup_steps_;
  int64_t total_steps_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SCHEDULE_H_
