#ifndef MOONRING_MODEL_FILES_WEIGHT_STORE_H_
#define MOONRING_MODEL_FILES_WEIGHT_STORE_H_

// A source of weights in any file format: named tensors that are read one at a time. A store knows
// nothing about models; the checkpoint checks names and shapes.

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
  // Why Read would refuse it ("type IQ2_XS is not supported yet ..."); empty if it can be read.
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
  // The tensor in the cheapest dtype: that of the file, or fp32 if it is dequantised. May be a view
  // of the mapped file.
  virtual absl::StatusOr<at::Tensor> Read(const std::string& name) const = 0;

  // The quantisation code of a weight that can stay packed in the file's form, with its rows in the
  // published order (ReadPacked); null if the weight can only be read.
  virtual std::shared_ptr<const kernels::WeightCode> CodeOf(const std::string& name) const {
    return nullptr;
  }
  // Only for a weight that has a code. Unpacking the result gives the same numbers as Read. May be
  // a view of the mapped file.
  virtual absl::StatusOr<kernels::PackedWeight> ReadPacked(const std::string& name) const {
    return absl::UnimplementedError(absl::StrCat(name, ": not packed"));
  }
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_WEIGHT_STORE_H_
