#include "trainer/rules/adafactor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "base/status/status_macros.h"
#include "trainer/rules/adam.h"

namespace moonring::trainer {
namespace {

constexpr double kAdafactorEpsilon = 1e-30;  // as in Transformers
constexpr double kLeastScale = 1e-3;         // as in torch

at::Tensor Rms(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor) / std::sqrt(static_cast<double>(tensor.numel()));
}

// Updates the second moments in the state with the squares g^2; `part` is 1 - b.
void TakeOn(const at::Tensor& squares, double part, UpdateRule::State& state) {
  if (squares.dim() < 2) {
    state.at("exp_avg_sq").lerp_(squares, part);
  } else {
    state.at("exp_avg_sq_row").lerp_(squares.mean(-1), part);
    state.at("exp_avg_sq_col").lerp_(squares.mean(-2), part);
  }
}

at::Tensor Clipped(const at::Tensor& update, double clip) {
  return update / (Rms(update) / clip).clamp_min_(1.0);
}

void StepAsTransformers(const AdafactorOptions& options, const at::Tensor& weight,
                        const at::Tensor& gradient, UpdateRule::State& state, double lr,
                        double decay, double part) {
  TakeOn(gradient * gradient + kAdafactorEpsilon, part, state);
  at::Tensor root;
  if (gradient.dim() < 2) {
    root = state.at("exp_avg_sq").rsqrt();
  } else {  // separate roots, because the product of the factors may underflow in fp32
    const at::Tensor& row = state.at("exp_avg_sq_row");
    root = (row / row.mean(-1, /*keepdim=*/true)).rsqrt_().unsqueeze(-1) *
           state.at("exp_avg_sq_col").unsqueeze(-2).rsqrt();
  }
  const at::Tensor update = Clipped(root.mul_(gradient), options.clip);
  Decay(weight, lr, decay);
  weight.sub_(update, lr);
}

void StepAsTorch(const AdafactorOptions& options, const at::Tensor& weight,
                 const at::Tensor& gradient, UpdateRule::State& state, double lr, double decay,
                 double part, int64_t step) {
  const double epsilon = gradient.scalar_type() == at::kDouble
                             ? std::numeric_limits<double>::epsilon()
                             : std::numeric_limits<float>::epsilon();
  const double most = std::min(lr, 1.0 / std::sqrt(static_cast<double>(step)));
  const at::Tensor rate = Rms(weight).clamp_min_(kLeastScale).mul_(most);
  Decay(weight, lr, decay);
  TakeOn(gradient * gradient, part, state);
  at::Tensor moments;
  if (gradient.dim() < 2) {
    moments = state.at("exp_avg_sq").clone();
  } else {
    const at::Tensor& row = state.at("exp_avg_sq_row");
    const at::Tensor mean = row.mean(-1, /*keepdim=*/true).unsqueeze(-1).clamp_min_(epsilon);
    moments = (row.unsqueeze(-1) * state.at("exp_avg_sq_col").unsqueeze(-2)).div_(mean);
  }
  const at::Tensor update = moments.clamp_min_(epsilon * epsilon).rsqrt_().mul_(gradient);
  weight.sub_(Clipped(update, options.clip).mul_(rate));
}

}  // namespace

absl::StatusOr<NativeRule> AdafactorRule(const AdafactorOptions& options,
                                         const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("adafactor", options));
  NativeRule native;
  native.whole.assign(parameters.size(), true);
  native.rule.state = [](size_t, const at::Tensor& weight) -> UpdateRule::State {
    if (weight.dim() < 2) return {{"exp_avg_sq", at::zeros_like(weight)}};
    std::vector<int64_t> row = weight.sizes().vec(), column = row;
    row.pop_back();
    column.erase(column.end() - 2);
    return {{"exp_avg_sq_row", at::zeros(row, weight.options())},
            {"exp_avg_sq_col", at::zeros(column, weight.options())}};
  };
  native.rule.update = [options, decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    const double part = std::pow(static_cast<double>(step), -options.decay_rate);
    if (options.form == AdafactorForm::kTransformers) {
      StepAsTransformers(options, weight, gradient, state, lr, decays[index], part);
    } else {
      StepAsTorch(options, weight, gradient, state, lr, decays[index], part, step);
    }
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
