#ifndef MOONRING_TRAINER_STATE_MEMORY_H_
#define MOONRING_TRAINER_STATE_MEMORY_H_

// Where an optimizer's state lies when it is not beside the weights. It is used once a step, piece
// after piece.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"

namespace moonring::trainer {

class StateMemory {
 public:
  virtual ~StateMemory() = default;

  // A contiguous tensor [numel] on the host, of zeros. The memory lives as long as the tensor.
  virtual absl::StatusOr<at::Tensor> Zeros(int64_t numel, at::ScalarType dtype) = 0;

  // A contiguous piece of such a tensor is not used until the next step; its numbers stay. Nothing
  // for any other tensor.
  virtual void Rest(const at::Tensor& piece) = 0;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_STATE_MEMORY_H_
