#include "trainer/rules/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/with_adam.h"

namespace moonring::trainer {
namespace {

constexpr double kMuonEpsilon = 1e-7;

// The order of operators follows each reference implementation, because in bf16 it changes the
// result.
at::Tensor Orthogonal(const MuonOptions& options, const at::Tensor& u) {
  const auto [a, b, c] = options.coefficients;
  const bool tall = u.size(0) > u.size(1);
  at::Tensor x = options.bf16 ? u.to(at::kBFloat16) : u.clone();
  if (tall) x = x.t();
  if (options.form == MuonForm::kTorch) {
    x.div_(x.norm().clamp_min_(kMuonEpsilon));
    for (int i = 0; i < options.iterations; ++i) {
      const at::Tensor gram = x.mm(x.t());
      x = at::addmm(x, at::addmm(gram, gram, gram, b, c), x, a);
    }
  } else {
    x = x / (x.norm() + kMuonEpsilon);
    for (int i = 0; i < options.iterations; ++i) {
      const at::Tensor gram = x.mm(x.t());
      x = x * a + (gram * b + (gram * c).mm(gram)).mm(x);
    }
  }
  return tall ? x.t() : x;
}

double ScaleOf(MuonScale scale, const at::Tensor& matrix) {
  const double rows = static_cast<double>(matrix.size(0)),
               columns = static_cast<double>(matrix.size(1));
  if (scale == MuonScale::kMatchRmsAdamW) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

void StepMuonMatrix(const MuonOptions& options, const at::Tensor& weight,
                    const at::Tensor& gradient, const at::Tensor& buffer, double lr) {
  const double mu = options.momentum;
  at::Tensor u = buffer;
  if (options.form == MuonForm::kTorch) {
    buffer.lerp_(gradient, 1.0 - mu);
    if (options.nesterov) u = gradient.lerp(buffer, mu);
  } else {
    buffer.mul_(mu).add_(gradient);
    if (options.nesterov) u = gradient.add(buffer, mu);
  }
  weight.sub_(Orthogonal(options, u), lr * ScaleOf(options.scale, weight));
}

}  // namespace

absl::StatusOr<NativeRule> MuonRule(const MuonOptions& options,
                                    const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("muon", options));
  MatrixRule rule;
  rule.state = [](size_t, const at::Tensor& weight) -> UpdateRule::State {
    return {{"momentum_buffer", at::zeros_like(weight)}};
  };
  rule.update = [options](size_t, const at::Tensor& weight, const at::Tensor& gradient,
                          UpdateRule::State& state, double lr, int64_t) {
    const at::Tensor& buffer = state.at("momentum_buffer");
    if (weight.dim() == 2) return StepMuonMatrix(options, weight, gradient, buffer, lr);
    for (int64_t e = 0; e < weight.size(0); ++e)
      StepMuonMatrix(options, weight[e], gradient[e], buffer[e], lr);
  };
  return WithAdam(std::move(rule), MatricesAndStacks(parameters), options.adam,
                  DecayOfEach(parameters, options.weight_decay), DecayTime::kBefore);
}

}  // namespace moonring::trainer
