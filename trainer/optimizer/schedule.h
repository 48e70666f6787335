#ifndef MOONRING_TRAINER_OPTIMIZER_SCHEDULE_H_
#define MOONRING_TRAINER_OPTIMIZER_SCHEDULE_H_

// Learning rate schedules, equal to Transformers' get_scheduler. With w warm-up steps, n steps in
// total, step index k = 0, 1, ...:
//
//   k < w                      lr * k / w                                (so the first warm-up step
//                              has rate 0)
//   later, with p = (k - w) / max(1, n - w) and C(c, p) = (1 + cos(2 pi c p)) / 2:
//   linear                     lr * max(0, 1 - p)
//   cosine                     lr * max(0, C(num_cycles, p)),            num_cycles 1/2
//   cosine_with_restarts       lr * max(0, C(1/2, frac(num_cycles p))),  num_cycles 1; 0 from p = 1
//   cosine_with_min_lr         lr * max(0, r + (1 - r) C(num_cycles, p)),     r = min_lr_rate, or
//                              min_lr / lr: one of them must be given
//   cosine_warmup_with_min_lr  the same with k + 1 in p; the warm-up is lr * (k + 1) / w, or linear
//                              from warmup_lr_rate to 1
//   polynomial                 lr_end + (lr - lr_end) (1 - p)^power,     1e-7 and 1; lr_end after
//                              the last step
//   inverse_sqrt               lr / sqrt((k - w + s) / s),               s = w, or 10000 without a
//                              warm-up
//   warmup_stable_decay        lr for num_stable_steps, then num_decay_steps from lr to r lr by
//                              decay_type (cosine, linear, 1-sqrt), then r lr; r = min_lr_ratio,
//                              default 0; the warm-up rises from r lr by warmup_type (linear,
//                              cosine, 1-sqrt). By default, a third of the steps after the warm-up
//                              is stable, the rest decays (LLaMA-Factory's rule)
//   constant_with_warmup       lr
//   constant                   lr, without a warm-up
//
// w is warmup_steps if that is above 0, otherwise ceil(warmup_ratio * n). All values are computed
// in doubles and in Transformers' order of operations, so that they are bit for bit the same.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace moonring::trainer {

struct ScheduleOptions {
  std::string kind = "linear";  // LLaMA-Factory's lr_scheduler_type
  double learning_rate = 5e-5;
  int64_t warmup_steps = 0;
  double warmup_ratio = 0.0;
  int64_t total_steps = 0;
  // lr_scheduler_kwargs of the kinds above, with the defaults given there.
  std::optional<double> num_cycles, min_lr, min_lr_rate, warmup_lr_rate, lr_end, power,
      min_lr_ratio;
  std::optional<int64_t> num_stable_steps, num_decay_steps;
  std::optional<std::string> warmup_type, decay_type;
};

class Schedule {
 public:
  // InvalidArgument for a value out of range, an unknown kind, or an option that the kind does not
  // have; Unimplemented for reduce_lr_on_plateau.
  static absl::StatusOr<Schedule> Create(const ScheduleOptions& options);

  // The learning rate of step `step_index` (0-based).
  double At(int64_t step_index) const;
  int64_t warmup_steps() const { return warmup_steps_; }

 private:
  enum class Kind {
    kLinear,
    kCosine,
    kCosineWithRestarts,
    kCosineWithMinLr,
    kCosineWarmupWithMinLr,
    kPolynomial,
    kInverseSqrt,
    kWarmupStableDecay,
    kConstantWithWarmup,
    kConstant
  };
  enum class Curve { kLinear, kCosine, kOneMinusSqrt };
  struct KindRow {
    const char* name;
    Kind kind;
    std::vector<std::string> options;  // names in lr_scheduler_kwargs
  };
  static absl::StatusOr<KindRow> FindKind(const std::string& name);

  double Factor(int64_t step_index) const;
  double Warmup(int64_t step_index) const;
  double StableDecay(int64_t step_index) const;

  Kind kind_ = Kind::kLinear;
  double learning_rate_ = 0.0;
  int64_t warmup_steps_ = 0, total_steps_ = 0, stable_steps_ = 0, decay_steps_ = 0;
  double cycles_ = 0.5;  // periods of the cosine
  double floor_ = 0.0;   // r
  double lr_end_ = 1e-7, power_ = 1.0;
  std::optional<double> warmup_lr_rate_;
  Curve warmup_curve_ = Curve::kLinear, decay_curve_ = Curve::kCosine;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_SCHEDULE_H_
