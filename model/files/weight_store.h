#ifndef MOONRING_MODEL_FILES_WEIGHT_STORE_H_
#define MOONRING_MODEL_FILES_WEIGHT_STORE_H_

// Where weights lie, whatever the file format: named tensors that are read one at a time. A store
// knows no model: which names and shapes are wanted is the checkpoint's business.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/packed/weight_code.h"

namespace moonring::model {

struct StoredWeight {
  std::string file;  // for messages
  std::vector<int64_t> shape;
  std::string dtype;       // as the format calls it: "BF16", "Q4_K"
  std::string unreadable;  // why Read would refuse it ("type IQ2_XS is not supported yet ...");
                           // empty where it can be read
};

// Whether a model's weights may be stored so.
inline bool IsWeightDtype(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf ||
         dtype == at::kDouble;
}

class WeightStore {
 public:
  virtual ~WeightStore() = default;
  virtual const std::map<std::string, StoredWeight>& weights() const = 0;  // by Hugging Face name
  // The tensor in the dtype that costs least (that of the file, or fp32 where it is dequantised).
  // May look into the mapped file.
  virtual absl::StatusOr<at::Tensor> Read(const std::string& name) const = 0;

  // The code of a weight whose numbers can stay packed as they lie in the file, its rows in the
  // published order (ReadPacked); null where the weight can only be read.
  virtual std::shared_ptr<const kernels::WeightCode> CodeOf(const std::string& name) const {
    return nullptr;
  }
  // For a weight that has a code. What that unpacks is what Read gives. May look into the mapped
  // file.
  virtual absl::StatusOr<kernels::PackedWeight> ReadPacked(const std::string& name) const {
    return absl::UnimplementedError(absl::StrCat(name, ": not packed"));
  }
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_WEIGHT_STORE_H_
