#include "trainer/rules/online_subspace.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/projection.h"
#include "trainer/rules/with_adam.h"

namespace moonring::trainer {
namespace {

// settings of AdamW for R
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kSideEpsilon = 1e-8, kDecay = 0.01;

// The gradient of || H R^T R - H ||^2 with respect to R, for right [r, n] and gradient [m, n].
at::Tensor GradientOfRight(const at::Tensor& right, const at::Tensor& gradient) {
  const at::Tensor h = gradient / at::linalg_vector_norm(gradient);
  const at::Tensor low = h.mm(right.t());
  const at::Tensor error = low.mm(right).sub_(h);
  return low.t().mm(error).add_(error.mm(right.t()).t().mm(h)).mul_(2.0);
}

// A step of torch.optim.AdamW on `side`, in place; t counts its steps.
void StepSide(const at::Tensor& side, const at::Tensor& gradient, UpdateRule::State& state,
              double lr, double t) {
  at::Tensor &mean = state.at("side_exp_avg"), &square = state.at("side_exp_avg_sq");
  side.mul_(1.0 - lr * kDecay);
  mean.lerp_(gradient, 1.0 - kBeta1);
  square.mul_(kBeta2).addcmul_(gradient, gradient, 1.0 - kBeta2);
  const at::Tensor root =
      square.sqrt().div_(std::sqrt(1.0 - std::pow(kBeta2, t))).add_(kSideEpsilon);
  side.addcdiv_(mean, root, -lr / (1.0 - std::pow(kBeta1, t)));
}

}  // namespace

absl::StatusOr<NativeRule> OnlineSubspaceRule(const OnlineSubspaceOptions& options,
                                              const base::Parameters& parameters) {
  constexpr char kRule[] = "online_subspace";
  RETURN_IF_ERROR(CheckFields(kRule, options));
  MatrixRule rule;
  rule.state = [options](size_t, const at::Tensor& weight) {
    const Projection projection(ProjectionType::kStd, options.rank, weight.sizes());
    UpdateRule::State state = AdamState(at::empty(projection.low_shape(), weight.options()));
    projection.AddTo(state, weight);
    const at::Tensor& side = state.at(projection.left ? "left" : "right");
    state["side_exp_avg"] = at::zeros_like(side);
    state["side_exp_avg_sq"] = at::zeros_like(side);
    return state;
  };
  rule.update = [options](size_t, const at::Tensor& weight, const at::Tensor& gradient,
                          UpdateRule::State& state, double lr, int64_t step) {
    const Projection projection(ProjectionType::kStd, options.rank, weight.sizes());
    if (step == 1) projection.FromSvd(gradient, state);
    const at::Tensor direction =
        AdamDirection(options.adam, projection.Down(state, gradient), state);
    weight.sub_(projection.Up(state, direction),
                lr * AdamCorrection(options.adam, step) * options.scale);
    if (step == 1) return;
    const at::Tensor& side = state.at(projection.left ? "left" : "right");
    const at::Tensor by_side = projection.left ? GradientOfRight(side.t(), gradient.t()).t()
                                               : GradientOfRight(side, gradient);
    StepSide(side, by_side, state, lr / options.learning_rate / options.gap,
             static_cast<double>(step - 1));
  };
  return WithAdam(std::move(rule), LinearMaps(parameters, options.targets), options.adam,
                  DecayOfEach(parameters, options.weight_decay), DecayTime::kAfter);
}

}  // namespace moonring::trainer
