#ifndef MOONRING_MODEL_BROKEN_WEIGHTS_H_
#define MOONRING_MODEL_BROKEN_WEIGHTS_H_

// Weights with numbers that are none, as a run that diverged leaves behind. A model with them gives
// NaN for every text.

#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"

namespace moonring::model {

class BrokenWeights {
 public:
  // Notes a weight that has NaN or infinite numbers. One pass over it, without a second copy.
  void Look(const std::string& name, const at::Tensor& weight);

  // INVALID_ARGUMENT where there was one, naming `where` and the first few.
  absl::Status Refuse(const std::string& where) const;

 private:
  int tensors_ = 0;
  std::string shown_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BROKEN_WEIGHTS_H_
