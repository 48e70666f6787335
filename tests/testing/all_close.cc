#include "tests/testing/all_close.h"

#include <cstring>
#include <limits>

#include <ATen/ATen.h>

namespace moonring::testing {
namespace {

// Describes the position of the greatest difference, and both values there.
std::string Furthest(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().cpu().to(at::kDouble).reshape({-1}),
                   y = b.detach().cpu().to(at::kDouble).reshape({-1});
  const int64_t at = (x - y).abs().argmax().item<int64_t>();
  return c10::str("furthest at flat index ", at, ": ", x[at].item<double>(), " against ",
                  y[at].item<double>());
}

}  // namespace

double RelativeErrorOf(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().cpu().to(at::kDouble), y = b.detach().cpu().to(at::kDouble);
  const double difference = (x - y).norm().item<double>(), size = y.norm().item<double>();
  if (size == 0) return difference == 0 ? 0 : difference * std::numeric_limits<double>::infinity();
  return difference / size;
}

::testing::AssertionResult RelativeError(const at::Tensor& a, const at::Tensor& b, double bound) {
  if (!a.defined() || !b.defined())
    return ::testing::AssertionFailure()
           << (a.defined() ? "the reference" : "the value") << " is an undefined tensor";
  if (a.sizes() != b.sizes())
    return ::testing::AssertionFailure() << "shape " << a.sizes() << " against " << b.sizes();
  const double error = RelativeErrorOf(a, b);
  if (error <= bound) return ::testing::AssertionSuccess() << "relative error " << error;
  return ::testing::AssertionFailure()
         << "relative error " << error << ", expected at most " << bound << "; " << Furthest(a, b);
}

::testing::AssertionResult BitEqual(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return ::testing::AssertionFailure() << "an undefined tensor";
  if (a.scalar_type() != b.scalar_type())
    return ::testing::AssertionFailure() << a.scalar_type() << " against " << b.scalar_type();
  if (a.sizes() != b.sizes())
    return ::testing::AssertionFailure() << "shape " << a.sizes() << " against " << b.sizes();
  const at::Tensor x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  if (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0)
    return ::testing::AssertionSuccess();
  const auto* p = static_cast<const char*>(x.const_data_ptr());
  const auto* q = static_cast<const char*>(y.const_data_ptr());
  int64_t differ = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    differ +=
        std::memcmp(p + i * x.element_size(), q + i * x.element_size(), x.element_size()) != 0;
  return ::testing::AssertionFailure()
         << differ << " of " << x.numel() << " elements differ; " << Furthest(a, b);
}

}  // namespace moonring::testing
