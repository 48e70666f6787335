#ifndef MOONRING_MODEL_FILES_TENSOR_PICKLE_H_
#define MOONRING_MODEL_FILES_TENSOR_PICKLE_H_

// The pickle in a file of torch.save (its record data.pkl): names of the tensors, and the storage
// and offset of each. Nothing is run (pickle_graph.h); only the functions and classes of a state
// dict may be named:
//
//   collections.OrderedDict(), torch.Size(shape)
//   torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks),
//       _v3(..., dtype)
//   torch._utils._rebuild_parameter(tensor, requires_grad, hooks),
//       _rebuild_parameter_with_state(tensor, requires_grad, hooks, state)
//   torch.FloatStorage and similar, torch.storage.UntypedStorage, torch.float8_e4m3fn and similar
//
// State set on the dictionary (_metadata: versions of modules) is discarded.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::model {

// A tensor as the pickle describes it, before checks against the storage. Sizes and offsets count
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

// Reads the state dict in `pickle`: a dictionary from names to tensors. INVALID_ARGUMENT, with a
// message that begins with `where` and, if known, the tensor's name: another function is named, the
// pickle is damaged, or a value is not a tensor (for example, if the state dict is nested in a
// checkpoint dictionary).
absl::StatusOr<std::map<std::string, PickledTensor>> ReadTensorPickle(absl::string_view pickle,
                                                                      const std::string& where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_TENSOR_PICKLE_H_
