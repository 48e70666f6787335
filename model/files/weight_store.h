#ifndef MOONRING_MODEL_FILES_WEIGHT_STORE_H_
#define MOONRING_MODEL_FILES_WEIGHT_STORE_H_

// A source of weights in any file format: named tensors that are read one at a time. A WeightStore
// does not check whether its weights fit a model; Checkpoint does.

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
  std::string dtype;  // the format's name: "BF16", "Q4_K"
  // Why Read cannot read the weight ("type IQ2_XS is not supported yet ..."); empty if it can.
  std::string unreadable;
};

// Whether a model's weights may be stored in this dtype.
inline bool IsWeightDtype(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf ||
         dtype == at::kDouble;
}

class WeightStore {
 public:
  virtual ~WeightStore() = default;
  virtual const std::map<std::string, StoredWeight>& weights() const = 0;  // by Hugging Face name
  // Reads a tensor, in the dtype of the file, or in fp32 if the file stores it quantised. May
  // return a view of the mapped file.
  virtual absl::StatusOr<at::Tensor> Read(const std::string& name) const = 0;

  // The quantisation code of a weight that ReadPacked can return as the file stores it; null if
  // only Read can read the weight.
  virtual std::shared_ptr<const kernels::WeightCode> CodeOf(const std::string& name) const {
    return nullptr;
  }
  // Reads a weight in quantised form; CodeOf(name) must not be null. The rows have the order of the
  // Hugging Face model. Unpacking the result gives the same numbers as Read. May return a view of
  // the mapped file.
  virtual absl::StatusOr<kernels::PackedWeight> ReadPacked(const std::string& name) const {
    return absl::UnimplementedError(absl::StrCat(name, ": not packed"));
  }
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_WEIGHT_STORE_H_
