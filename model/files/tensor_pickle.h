#ifndef MOONRING_MODEL_FILES_TENSOR_PICKLE_H_
#define MOONRING_MODEL_FILES_TENSOR_PICKLE_H_

// The pickle in a file of torch.save (its record data.pkl): which tensors there are, and where in
// which storage each lies. Nothing is run (pickle_graph.h); what a state dict is made of is all
// that may be named:
//
//   collections.OrderedDict(), torch.Size(shape)
//   torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks),
//       _v3(..., dtype)
//   torch._utils._rebuild_parameter(tensor, requires_grad, hooks),
//       _rebuild_parameter_with_state(tensor, requires_grad, hooks, state)
//   torch.FloatStorage and its kin, torch.storage.UntypedStorage, torch.float8_e4m3fn and its kin
//
// State set on the dictionary (_metadata: versions of modules) is dropped.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::model {

// As the pickle describes it, not yet checked against the storage. Counts of elements, none
// negative.
struct PickledTensor {
  std::string storage;  // the record data/<storage>
  at::ScalarType dtype = at::kFloat;
  int64_t storage_size = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape, strides;  // of one length
};

constexpr uint64_t kLargestPickle =
    16 << 20;  // of some 70,000 tensors; it bounds the memory that a pickle can ask for

// The state dict in `pickle`: names to tensors and nothing else. INVALID_ARGUMENT opening with
// `where` and, where there is one, the tensor's name: another function is named, the pickle is
// damaged, a value is not a tensor (say, the state dict lies in a dictionary of a checkpoint).
absl::StatusOr<std::map<std::string, PickledTensor>> ReadTensorPickle(absl::string_view pickle,
                                                                      const std::string& where);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_TENSOR_PICKLE_H_
