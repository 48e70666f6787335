#ifndef MOONRING_LUA_SERVE_LOSS_TENSORS_H_
#define MOONRING_LUA_SERVE_LOSS_TENSORS_H_

// Tensors of a request (loss_request.h), from bytes or from lists of numbers, dense or sparse.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::serve {

// The values of the field `dtype` of a tensor in a request.
enum class WireDtype { kFloat32 = 1, kInt64 = 2, kInt32 = 3, kBfloat16 = 4 };

// INVALID_ARGUMENT for a number that is none of these.
absl::StatusOr<WireDtype> WireDtypeOf(int64_t number);
const char* NameOf(WireDtype dtype);
int64_t SizeOf(WireDtype dtype);

// Returns little-endian numbers as a tensor [N] of float32 or int64. INVALID_ARGUMENT if `bytes`
// has a size that is not a multiple of SizeOf(dtype).
absl::StatusOr<at::Tensor> NumbersOf(absl::string_view bytes, WireDtype dtype);

struct SparseIndices {
  at::Tensor rows, columns;  // int64, flat: crow_indices and col_indices
};

// Gives flat values their shape; with an empty shape they stay flat. Sparse values become a dense
// matrix with zeros elsewhere; `filled` counts the numbers of all such matrices of a request, and
// is increased. INVALID_ARGUMENT if values, shape and indices contradict each other, if a value is
// not finite, or if `filled` would exceed kMostFilledNumbers.
absl::StatusOr<at::Tensor> ShapedTensor(at::Tensor values, WireDtype dtype,
                                        const std::vector<int64_t>& shape,
                                        const std::optional<SparseIndices>& sparse,
                                        int64_t& filled);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_LOSS_TENSORS_H_
