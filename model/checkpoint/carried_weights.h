#ifndef MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_

// Data that is copied from the model's original files into the saved ones because training does not
// change it. For a composite model (a multimodal model of which only the text model is trained)
// these are the other tensors, for example a vision tower: each is copied byte for byte from the
// mapped file when it is written. For any model these are the dtypes of its buffers.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/files/safetensors_writer.h"

namespace moonring::model {

struct CarriedWeights {
  std::vector<TensorToWrite> tensors;
  // Returns the name that a weight of the model has in the files; null: the names are the same.
  std::function<std::string(const std::string& name)> stored_name;
  // Weight name -> dtype, for the weights that are never trained (WeightShape::learns).
  std::map<std::string, at::ScalarType> dtypes;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_CARRIED_WEIGHTS_H_
