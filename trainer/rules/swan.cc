#include "trainer/rules/swan.h"

#include <cmath>
#include <limits>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/with_adam.h"

namespace moonring::trainer {
namespace {

constexpr double kTiny = 1e-30;  // avoids division by zero for a zero matrix, which stays zero

at::Tensor Normalized(const at::Tensor& gradient) {
  const double epsilon = gradient.scalar_type() == at::kDouble
                             ? std::numeric_limits<double>::epsilon()
                             : std::numeric_limits<float>::epsilon();
  const at::Tensor mean = gradient.mean(1, /*keepdim=*/true), centered = gradient - mean;
  const at::Tensor spread = centered.square().mean(1, /*keepdim=*/true).sqrt_();
  // A row is constant if its deviations from the mean are only rounding errors; it becomes zeros.
  return at::where(spread > mean.abs() * (8.0 * epsilon), centered / spread, 0.0);
}

at::Tensor Whitened(const SwanOptions& options, const at::Tensor& normalized) {
  const bool tall = normalized.size(0) > normalized.size(1);
  const at::Tensor norm = at::linalg_vector_norm(normalized);
  at::Tensor x = (tall ? normalized.t() : normalized) / norm.clamp_min(kTiny);
  for (int64_t i = 0; i < options.iterations; ++i)
    x = at::addmm(x, x.mm(x.t()), x, 3.0 * options.beta, -options.beta);
  x.mul_(norm / at::linalg_vector_norm(x).clamp_min_(kTiny));
  return tall ? x.t() : x;
}

void StepSwanMatrix(const SwanOptions& options, const at::Tensor& weight,
                    const at::Tensor& gradient, double lr) {
  weight.sub_(Whitened(options, Normalized(gradient)), lr * options.alpha);
}

}  // namespace

absl::StatusOr<NativeRule> SwanRule(const SwanOptions& options,
                                    const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("swan", options));
  if (!(options.beta > 0.0 && options.beta <= std::sqrt(3.0) / 2.0)) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.swan: ns_beta is ", options.beta,
                                                   ", expected more than 0, 0.866 at most"));
  }
  MatrixRule rule;
  rule.state = [](size_t, const at::Tensor&) { return UpdateRule::State(); };
  rule.update = [options](size_t, const at::Tensor& weight, const at::Tensor& gradient,
                          UpdateRule::State&, double lr, int64_t) {
    if (weight.dim() == 2) return StepSwanMatrix(options, weight, gradient, lr);
    for (int64_t e = 0; e < weight.size(0); ++e)
      StepSwanMatrix(options, weight[e], gradient[e], lr);
  };
  return WithAdam(std::move(rule), MatricesAndStacks(parameters), options.adam,
                  DecayOfEach(parameters, options.weight_decay), DecayTime::kBefore);
}

}  // namespace moonring::trainer
