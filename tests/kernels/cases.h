#ifndef MOONRING_TESTS_COMM_KERNELS_CASES_H_
#define MOONRING_TESTS_COMM_KERNELS_CASES_H_

// Common test inputs for kernels: dtypes, shapes, memory layouts, and orders in which threads run.

#include <array>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

using Tensors = std::vector<at::Tensor>;

inline constexpr std::array<uint64_t, 4> kOrders = {0, 1, 2, 77};  // fibers.h's seeds

enum class Lies { kWhole, kApart, kOdd };
inline constexpr std::array<Lies, 3> kLies = {Lies::kWhole, Lies::kApart, Lies::kOdd};

// Returns standard normal values [rows, width]. `lies` selects the memory layout: contiguous; rows
// with a larger stride, aligned to 16 bytes; or a view whose rows are aligned to one element only.
at::Tensor RandomRows(int64_t rows, int64_t width, at::ScalarType dtype, Lies lies);

// The dtype of sums, and of weights that are wider than the rows: fp64 for fp64, otherwise fp32.
inline at::ScalarType WideDtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? dtype : at::kFloat;
}

// While a Poison is alive, at::empty returns tensors full of NaN.
class Poison {
 public:
  Poison();
  ~Poison();
};

// The allowed RelativeError compared with the fp64 result for the same inputs: that of one rounding
// of the result to `dtype`, with a margin for the order of sums.
double BoundOf(at::ScalarType dtype);

}  // namespace moonring::kernels

#endif  // MOONRING_TESTS_COMM_KERNELS_CASES_H_
