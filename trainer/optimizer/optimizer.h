#ifndef MOONRING_TRAINER_OPTIMIZER_OPTIMIZER_H_
#define MOONRING_TRAINER_OPTIMIZER_OPTIMIZER_H_

// Interface of optimizers. An optimizer has a list of Parameters, reads their gradients (already
// summed over all ranks and clipped) and updates their weights in place; it does not clear
// gradients. On replicated models, every rank makes the same step, without communication.
//
// A frozen parameter, or one without a gradient, keeps its weight and state.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"
#include "base/text/fields.h"

namespace moonring::trainer {

// Settings of AdamW for one step, as torch.optim.AdamW has them when a caller changes its
// param_groups between steps. Absent: the setting of creation.
struct StepSettings {
  std::optional<double> beta1, beta2, epsilon, weight_decay;

  static constexpr std::tuple kFields = {
      base::Field{"beta1", &StepSettings::beta1, "default: that of creation"},
      base::Field{"beta2", &StepSettings::beta2, "default: that of creation"},
      base::Field{"epsilon", &StepSettings::epsilon,
                  "must be more than 0 here: with 0, an element whose gradients were all 0 would "
                  "become NaN; default: that of creation"},
      base::Field{"weight_decay", &StepSettings::weight_decay, "default: that of creation"},
  };
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One step with learning rate `lr`. Throws if a gradient's shape or dtype does not match.
  virtual void Step(double lr) = 0;

  // One step with settings of its own. Unlike Step, it also updates trainable parameters without a
  // gradient, as if that were 0: moments and weights decay, and the step counts.
  // InvalidArgument, with nothing changed, for a setting that is out of range, and for optimizers
  // other than AdamW.
  virtual absl::Status StepWith(double lr, const StepSettings& settings);

  // All tensors needed to resume bit for bit, by name. They are the live tensors, not copies.
  virtual std::map<std::string, at::Tensor> SaveState() const = 0;
  // InvalidArgument if a name is missing or unknown, or a shape differs; nothing is changed then.
  virtual absl::Status LoadState(const std::map<std::string, at::Tensor>& state) = 0;

  virtual int64_t state_bytes() const = 0;

  // The parameters whose gradients Step uses.
  virtual base::Parameters parameters() const = 0;

  // For optimizers that train with other weights than those to be evaluated and saved
  // (schedule-free): swaps the averaged weights in (`average`) or out. Returns whether any weight
  // was written. All ranks must call it together.
  virtual bool Average(bool /*average*/) { return false; }
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_OPTIMIZER_H_
