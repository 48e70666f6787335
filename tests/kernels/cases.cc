#include "tests/kernels/cases.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>

namespace moonring::kernels {

at::Tensor RandomRows(int64_t rows, int64_t width, at::ScalarType dtype, Lies lies) {
  const int64_t gap = lies == Lies::kWhole ? 0 : lies == Lies::kApart ? 16 - width % 8 : 3;
  const at::Tensor all = at::randn({rows, width + gap}, at::kDouble).to(dtype);
  return all.narrow(1, lies == Lies::kOdd ? 1 : 0, width);
}

Poison::Poison() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
}
Poison::~Poison() { at::globalContext().setDeterministicAlgorithms(false, false); }

double BoundOf(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-14;
    case at::kFloat:
      return 6e-7;
    case at::kHalf:
      return 4e-4;
    default:
      return 3e-3;  // bf16: 2^-9 at most a number
  }
}

}  // namespace moonring::kernels
