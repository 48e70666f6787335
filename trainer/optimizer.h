#ifndef MOONRING_TRAINER_OPTIMIZER_H_
#define MOONRING_TRAINER_OPTIMIZER_H_

// What turns gradients into new weights. An optimizer holds Parameters, reads their gradients
// (already summed over all ranks and clipped) and writes their weights in place; it clears no
// gradient. Every rank of a replicated model makes the same step, so nothing is sent.
//
// A frozen parameter, and one without a gradient, is left untouched, weight and state.

#include <cstdint>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"

namespace moonring::trainer {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One step at learning rate `lr`. Throws where a gradient's shape or dtype does not fit.
  virtual void Step(double lr) = 0;

  // Everything that a later run needs to go on bit for bit, by name. The tensors are the live ones,
  // not copies.
  virtual std::map<std::string, at::Tensor> SaveState() const = 0;
  // InvalidArgument where a name is missing or unknown, or a shape differs; nothing is changed
  // then.
  virtual absl::Status LoadState(const std::map<std::string, at::Tensor>& state) = 0;

  virtual int64_t state_bytes() const = 0;

  // Of an optimizer whose weights, while they learn, are others than those that a model is to be
  // evaluated and saved by: puts the latter in their place, or the former back. Gives whether any
  // weight was written. A call of every rank.
  virtual bool Average(bool /*average*/) { return false; }
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_H_
