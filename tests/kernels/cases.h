#ifndef MOONRING_TESTS_COMM_KERNELS_CASES_H_
#define MOONRING_TESTS_COMM_KERNELS_CASES_H_

// What every kernel is tried with: dtypes, shapes, ways to lie in memory, orders of its threads.

#include <array>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

using Tensors = std::vector<at::Tensor>;

inline constexpr std::array<uint64_t, 4> kOrders = {0, 1, 2, 77};  // fibers.h's seeds

enum class Lies { kWhole, kApart, kOdd };
inline constexpr std::array<Lies, 3> kLies = {Lies::kWhole, Lies::kApart, Lies::kOdd};

// Standard normal [rows, width]: without gaps; in rows that lie further apart, on 16 bytes; or as a
// view whose rows lie on no boundary but an element's.
at::Tensor RandomRows(int64_t rows, int64_t width, at::ScalarType dtype, Lies lies);

// Of sums, and of weights beside narrower rows.
inline at::ScalarType WideDtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? dtype : at::kFloat;
}

// While it lives, at::empty gives NaN.
class Poison {
 public:
  Poison();
  ~Poison();
};

// How far a result may be from fp64's of the same inputs, as RelativeError has it: its dtype's last
// place, for one rounding at the end.
double BoundOf(at::ScalarType dtype);

}  // namespace moonring::kernels

#endif  // MOONRING_TESTS_COMM_KERNELS_CASES_H_
