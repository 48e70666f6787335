#ifndef MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_

// Weights of files with several possible naming schemes (StoredNames), renamed to the family's
// names. Used for the text model of a composite model (its other tensors keep the files' names),
// and for models that were published under other module names than Transformers uses. Only headers
// are read.

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
  // INVALID_ARGUMENT if two tensors map to one name.
  static absl::StatusOr<std::unique_ptr<RenamedWeights>> Create(std::unique_ptr<WeightStore> files,
                                                                const Family& family);

  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override;

  // The name of a weight in the files; for a missing weight (a tied head) the name that it would
  // have.
  std::string StoredName(const std::string& name) const;

 private:
  RenamedWeights() = default;

  std::unique_ptr<WeightStore> files_;
  std::map<std::string, StoredWeight> weights_;
  StoredNames own_, stored_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_
