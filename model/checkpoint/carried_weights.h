#ifndef MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_

// What a composite model's folder holds beside the weights that are trained, on its way from the
// files that it was opened from into those that are saved: a vision tower, say. Each tensor is read
// from the mapped file as it is written, byte for byte in its own dtype: none is held.

#include <functional>
#include <string>
#include <vector>

#include "model/files/safetensors_writer.h"

namespace moonring::model {

struct CarriedWeights {
  std::vector<TensorToWrite> tensors;
  // What the files call a weight of the model's; null: as the model does.
  std::function<std::string(const std::string& name)> stored_name;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_
