#ifndef MOONRING_TRAINER_OPTIMIZER_OPTIMIZER_H_
#define MOONRING_TRAINER_OPTIMIZER_OPTIMIZER_H_

// Interface of optimizers. An optimizer has a list of Parameters, reads their gradients (already
// summed over all ranks and clipped) and updates their weights in place; it does not clear
// gradients. On replicated models, every rank makes the same step, without communication.
//
// A frozen parameter, or one without a gradient, keeps its weight and state.

#include <cstdint>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"

namespace moonring::trainer {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One step with learning rate `lr`. Throws if a gradient's shape or dtype does not match.
  virtual void Step(double lr) = 0;

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
