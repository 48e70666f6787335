#ifndef MOONRING_MODEL_BROKEN_WEIGHTS_H_
#define MOONRING_MODEL_BROKEN_WEIGHTS_H_

// Collects the names of weights that contain NaN or infinities, which a diverged training run may
// have saved. A model with such weights outputs NaN for every text.

#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"

namespace moonring::model {

class BrokenWeights {
 public:
  // Records the weight if it contains NaN or infinities. Reads the weight once and makes no copy.
  void Look(const std::string& name, const at::Tensor& weight);

  // INVALID_ARGUMENT if a weight was recorded. The message begins with `where` and lists the first
  // few names.
  absl::Status Refuse(const std::string& where) const;

 private:
  int tensors_ = 0;
  std::string shown_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BROKEN_WEIGHTS_H_
