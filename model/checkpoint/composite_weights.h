#ifndef MOONRING_MODEL_CHECKPOINT_COMPOSITE_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_COMPOSITE_WEIGHTS_H_

// The weights of a composite model's files, its text half by the names that the family gives it
// whatever the files call it (StoredNames), the others by the files' own. Headers alone are read.

#include <map>
#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "model/config/family.h"
#include "model/files/weight_store.h"

namespace moonring::model {

class CompositeWeights : public WeightStore {
 public:
  // INVALID_ARGUMENT where two tensors have one name.
  static absl::StatusOr<std::unique_ptr<CompositeWeights>> Create(
      std::unique_ptr<WeightStore> files, const Family& family);

  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override;

  // What the files call a weight, or would where it is not there: a head that was tied.
  std::string StoredName(const std::string& name) const;

 private:
  CompositeWeights() = default;

  std::unique_ptr<WeightStore> files_;
  std::map<std::string, StoredWeight> weights_;
  StoredNames own_, stored_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_COMPOSITE_WEIGHTS_H_
