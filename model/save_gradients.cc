#include "model/save_gradients.h"

#include <vector>

#include "model/files/safetensors_writer.h"

namespace moonring::model {

absl::Status SaveGradients(const base::Parameters& parameters, const std::string& path,
                           bool writes) {
  std::vector<TensorToWrite> tensors;
  for (const auto& parameter : parameters) {
    if (!parameter->trainable()) continue;
    if (!writes) {
      parameter->WholeGradient();
      continue;
    }
    tensors.push_back({parameter->name(), parameter->shape().vec(), parameter->gradient_dtype(),
                       [parameter] { return parameter->WholeGradient(); }});
  }
  return writes ? WriteSafetensors(path, tensors) : absl::OkStatus();
}

}  // namespace moonring::model
