#ifndef MOONRING_TRAINER_SHARDING_STATE_MEMORY_H_
#define MOONRING_TRAINER_SHARDING_STATE_MEMORY_H_

// Interface for storing optimizer state elsewhere than next to the weights, for example on a disk.
// Each step reads and writes each tensor once, piece by piece.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"

namespace moonring::trainer {

class StateMemory {
 public:
  virtual ~StateMemory() = default;

  // A contiguous tensor [numel] of zeros on the host. The memory lives as long as the tensor.
  virtual absl::StatusOr<at::Tensor> Zeros(int64_t numel, at::ScalarType dtype) = 0;

  // Announces that a contiguous piece of a tensor made by Zeros is not used until the next step;
  // its values are kept. Has no effect for other tensors.
  virtual void Rest(const at::Tensor& piece) = 0;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_STATE_MEMORY_H_
