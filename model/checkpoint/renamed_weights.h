#ifndef MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_

// Presents the weights of files under the family's names if the files use another naming scheme
// (StoredNames). Used for the text model of a composite (multimodal) model, whose other tensors
// keep the names that the files use, and for models that were published under other module names
// than Transformers uses. Create reads only the files' headers.

#include <map>
#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "model/config/family.h"
#include "model/files/weight_store.h"

namespace moonring::model {

class RenamedWeights : public WeightStore {
 public:
  // Wraps the weights of files. INVALID_ARGUMENT if two tensors map to one name.
  static absl::StatusOr<std::unique_ptr<RenamedWeights>> Create(std::unique_ptr<WeightStore> files,
                                                                const Family& family);

  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override;

  // Returns the name of a weight in the files. For a weight that the files lack (a tied head),
  // returns the name that it would have.
  std::string StoredName(const std::string& name) const;

 private:
  RenamedWeights() = default;

  std::unique_ptr<WeightStore> files_;
  std::map<std::string, StoredWeight> weights_;
  StoredNames own_, stored_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_
