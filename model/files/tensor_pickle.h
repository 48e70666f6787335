#ifndef MOONRING_MODEL_FILES_TENSOR_PICKLE_H_
#define MOONRING_MODEL_FILES_TENSOR_PICKLE_H_

// Reads the pickle in a file of torch.save (its record data.pkl), which has the name, storage and
// offset of each tensor. No code in the pickle is run (pickle_graph.h), and only the functions and
// classes of a state dict are accepted:
//
//   collections.OrderedDict(), torch.Size(shape)
//   torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks),
//       _v3(..., dtype)
//   torch._utils._rebuild_parameter(tensor, requires_grad, hooks),
//       _rebuild_parameter_with_state(tensor, requires_grad, hooks, state)
//   torch.FloatStorage and similar, torch.storage.UntypedStorage, torch.float8_e4m3fn and similar
//
// The dictionary's _metadata (versions of modules) are discarded.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::model {

// A tensor as the pickle describes it, not yet checked against the storage. Sizes and offsets count
// elements and are not negative.
struct PickledTensor {
  std::string storage;  // the record data/<storage>
  at::ScalarType dtype = at::kFloat;
  int64_t storage_size = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape, strides;  // of equal length
};

// Enough for some 70,000 tensors; limits the memory that a pickle can request.
constexpr uint64_t kLargestPickle = 16 << 20;

// Reads the state dict in `pickle`: a dictionary from names to tensors. INVALID_ARGUMENT if the
// pickle names any other function, is damaged, or has a value that is not a tensor (for example,
// because the state dict is nested in a checkpoint dictionary). The message begins with `where`
// and, if known, the tensor's name.
absl::StatusOr<std::map<std::string, PickledTensor>> ReadTensorPickle(absl::string_view pickle,
                                                                      const std::string& where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_TENSOR_PICKLE_H_
