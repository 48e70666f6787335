#ifndef MOONRING_TESTS_TESTING_FINITE_DIFFERENCES_H_
#define MOONRING_TESTS_TESTING_FINITE_DIFFERENCES_H_

// Computes gradients by central differences in fp64: (f(x + h) - f(x - h)) / 2h with h = 1e-5. The
// error is about h^2 f'''/6 + 1e-16 f/h, at most 1e-9 for usual f.

#include <functional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace moonring::testing {

inline constexpr double kDifferenceBound = 1e-8;

// Returns df/dx for a scalar function f of the fp64 tensor x, which is changed in place and
// restored.
inline at::Tensor FiniteDifferences(const std::function<double()>& f, const at::Tensor& x) {
  at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  at::Tensor gradient = at::empty_like(x, at::MemoryFormat::Contiguous), flat = gradient.view({-1}),
             place = x.detach().view({-1});
  for (int64_t i = 0; i < place.numel(); ++i) {
    const double value = place[i].item<double>();
    place[i].fill_(value + kStep);
    const double above = f();
    place[i].fill_(value - kStep);
    const double below = f();
    place[i].fill_(value);
    flat[i].fill_((above - below) / (2 * kStep));
  }
  return gradient;
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_FINITE_DIFFERENCES_H_
