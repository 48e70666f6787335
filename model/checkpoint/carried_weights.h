#ifndef MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_

// What of a folder training does not change, on its way from the files that it was opened from into
// those that are saved. Of a composite model what it holds beside the weights that are trained, a
// vision tower, say: each tensor is read from the mapped file as it is written, byte for byte in
// its own dtype, and none is held. Of any model the dtypes of numbers that never learn.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/files/safetensors_writer.h"

namespace moonring::model {

struct CarriedWeights {
  std::vector<TensorToWrite> tensors;
  // What the files call a weight of the model's; null: as the model does.
  std::function<std::string(const std::string& name)> stored_name;
  // By the model's name for it, of each weight that never learns (WeightShape::learns).
  std::map<std::string, at::ScalarType> dtypes;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_
