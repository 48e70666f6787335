#ifndef MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_

// The weights of files that may call them in several ways (StoredNames), by the names that the
// family gives them: a composite model's text half, whose others keep the files' own, or a model
// that was published under names which Transformers does not give its modules. Headers alone are
// read.

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
  // INVALID_ARGUMENT where two tensors have one name.
  static absl::StatusOr<std::unique_ptr<RenamedWeights>> Create(std::unique_ptr<WeightStore> files,
                                                                const Family& family);

  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override;

  // What the files call a weight, or would where it is not there: a head that was tied.
  std::string StoredName(const std::string& name) const;

 private:
  RenamedWeights() = default;

  std::unique_ptr<WeightStore> files_;
  std::map<std::string, StoredWeight> weights_;
  StoredNames own_, stored_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_RENAMED_WEIGHTS_H_
