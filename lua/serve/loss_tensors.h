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

// The numbers of the field dtype.
enum class WireDtype { kFloat32 = 1, kInt64 = 2, kInt32 = 3, kBfloat16 = 4 };

// INVALID_ARGUMENT for a number that is none of these.
absl::StatusOr<WireDtype> WireDtypeOf(int64_t number);
const char* NameOf(WireDtype dtype);
int64_t SizeOf(WireDtype dtype);

// A flat tensor of little-endian numbers, as float32 or int64. INVALID_ARGUMENT if the bytes are no
// whole number of them.
absl::StatusOr<at::Tensor> NumbersOf(absl::string_view bytes, WireDtype dtype);

struct SparseIndices {
  at::Tensor rows, columns;  // int64, flat: crow_indices and col_indices
};

// Gives flat values their shape; without a shape they stay flat. Sparse values are put in a tensor
// of zeros. `filled`: how many numbers such tensors of the request have had so far; it grows.
// INVALID_ARGUMENT if these contradict each other, if a number is not finite, or if the request
// would have more than kMostFilledNumbers.
absl::StatusOr<at::Tensor> ShapedTensor(at::Tensor values, WireDtype dtype,
                                        const std::vector<int64_t>& shape,
                                        const std::optional<SparseIndices>& sparse,
                                        int64_t& filled);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_LOSS_TENSORS_H_
