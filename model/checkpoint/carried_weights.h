#ifndef MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_

// Data that is copied from the model's original files into the saved ones because training does not
// change it: for a composite model the tensors besides the trained weights (for example a vision
// tower), each copied byte for byte in its own dtype from the mapped file when it is written,
// without a copy in memory; for any model the dtypes of its buffers.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/files/safetensors_writer.h"

namespace moonring::model {

struct CarriedWeights {
  std::vector<TensorToWrite> tensors;
  // The name of a model's weight in the files; null: the model's own name.
  std::function<std::string(const std::string& name)> stored_name;
  // Dtype of each weight that is never trained (WeightShape::learns), by the model's name for it.
  std::map<std::string, at::ScalarType> dtypes;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_
