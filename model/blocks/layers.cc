#include "model/blocks/layers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

namespace moonring::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void RefuseSecondDerivative(const char* layer) {
  TORCH_CHECK(!at::GradMode::is_enabled(), layer, ": backward with create_graph is not supported");
}

std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) { return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt; }

at::Tensor Rstd(const at::Tensor& x, double eps) { return x.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_(); }

struct RmsNormGradients {
  at::Tensor x, weight;
};

// With n = x r (r = 1/sqrt(mean(x^2) + eps)):  dw = sum_T dy n,  dx = r (dy w - n mean_D(dy w n)). Undefined where not wanted.
RmsNormGradients RmsNormBackward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd, bool needs_x, bool needs_weight) {
  RmsNormGradients gradients;
  at::Tensor normed = x * rstd;
  at::Tensor product = dy * normed;
  if (needs_weight) gradients.weight = product.sum(0);
  if (!needs_x) return gradients;
  const at::Tensor mean = product.mul_(weight).mean(-1, /*keepdim=*/true);
  product.reset();
  gradients.x = (dy * weight).sub_(normed.mul_(mean)).mul_(rstd);
  return gradients;
}

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType result_dtype) {
    const at::Tensor rstd = Rstd(x, eps);
    ctx->save_for_backward({x, weight, rstd});
    return (x * rstd).mul_(weight).to(result_dtype);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RefuseSecondDerivative("RmsNorm");
    const variable_list saved = ctx->get_saved_variables();
    RmsNormGradients d = RmsNormBackward(gradients[0].to(saved[0].scalar_type()), saved[0], saved[1], saved[2], ctx->needs_input_grad(0), ctx->needs_input_grad(1));
    return {std::move(d.x), std::move(d.weight), at::Tensor(), at::Tensor()};
  }
};

// n = RmsNorm(x), y_i = n W_i^T + b_i:  dn = sum_i dy_i W_i,  dW_i = dy_i^T n,  with n made again.
class NormedLinearFunction : public torch::autograd::Function<NormedLinearFunction> {
 public:
  // `all`: x, the norm's weight, the maps' weights, then those biases that are there, of the maps that `biased` names.
  static variable_list forward(AutogradContext* ctx, at::TensorList all, double eps, const std::vector<int64_t>& biased) {
    ctx->set_materialize_grads(false);
    const at::Tensor rstd = Rstd(all[0], eps);
    const size_t maps = all.size() - kMaps - biased.size();
    const at::Tensor normed = (all[0] * rstd).mul_(all[1]).to(all[kMaps].scalar_type());
    variable_list results;
    for (size_t i = 0; i < maps; ++i) {
      const auto found = std::find(biased.begin(), biased.end(), static_cast<int64_t>(i));
      const auto bias = found == biased.end() ? std::optional<at::Tensor>() : all[kMaps + maps + (found - biased.begin())];
      results.push_back(at::linear(normed, all[kMaps + i], bias));
    }
    variable_list saved(all.begin(), all.begin() + kMaps + static_cast<std::ptrdiff_t>(maps));
    saved.push_back(rstd);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["biased"] = biased;
    return results;
  }

  static variable_list backward(AutogradContext* ctx, variable_list dys) {
    RefuseSecondDerivative("NormedLinear");
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> biased = ctx->saved_data["biased"].toIntVector();
    const size_t maps = dys.size();
    const at::Tensor &x = saved[0], &weight = saved[1], &rstd = saved.back();
    variable_list gradients(kMaps + maps + biased.size() + 2);  // of the eps and the list of biases too
    at::Tensor normed = (x * rstd).mul_(weight).to(saved[kMaps].scalar_type());
    for (size_t i = 0; i < maps; ++i) {
      if (dys[i].defined() && ctx->needs_input_grad(kMaps + i)) gradients[kMaps + i] = dys[i].t().mm(normed);
    }
    normed.reset();
    for (size_t b = 0; b < biased.size(); ++b) {
      if (dys[biased[b]].defined() && ctx->needs_input_grad(kMaps + maps + b)) gradients[kMaps + maps + b] = dys[biased[b]].sum(0);
    }
    if (!ctx->needs_input_grad(0) && !ctx->needs_input_grad(1)) return gradients;
    at::Tensor dnormed;
    for (size_t i = 0; i < maps; ++i) {
      if (dys[i].defined()) dnormed = dnormed.defined() ? dnormed.addmm_(dys[i], saved[kMaps + i]) : dys[i].mm(saved[kMaps + i]);
      dys[i].reset();
    }
    if (!dnormed.defined()) return gradients;
    RmsNormGradients d = RmsNormBackward(dnormed.to(x.scalar_type()), x, weight, rstd, ctx->needs_input_grad(0), ctx->needs_input_grad(1));
    gradients[0] = std::move(d.x);
    gradients[1] = std::move(d.weight);
    return gradients;
  }

 private:
  static constexpr std::ptrdiff_t kMaps = 2;  // where they begin
};

// p = act(gate) up, y = p W^T + b:  dp = dy W,  dW = dy^T p,  dup = dp act(gate),  dgate = dp up act'(gate).
class GatedDownFunction : public torch::autograd::Function<GatedDownFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, Activation activation) {
    ctx->save_for_backward({gate, up, weight});
    ctx->saved_data["bias"] = bias.has_value();
    ctx->saved_data["activation"] = static_cast<int64_t>(activation);
    return at::linear(Activate(gate, activation).mul_(up), weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RefuseSecondDerivative("GatedDown");
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &weight = saved[2];
    const at::Tensor& dy = gradients[0];
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    at::Tensor activated = Activate(gate, activation);
    at::Tensor dgate, dup, dweight, dbias;
    if (ctx->needs_input_grad(2)) dweight = dy.t().mm(activated * up);
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(3)) dbias = dy.sum(0);
    if (ctx->needs_input_grad(0) || ctx->needs_input_grad(1)) {
      at::Tensor dproduct = dy.mm(weight);
      dup = activated.mul_(dproduct);
      dgate = ActivateBackward(dproduct.mul_(up), gate, activation);
    }
    return {dgate, dup, dweight, dbias, at::Tensor()};
  }
};

void CheckNorm(const char* layer, const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 1 && x.size(1) == weight.size(0), layer, ": rows of shape ", x.sizes(), ", weight of shape ", weight.sizes());
  TORCH_CHECK(x.scalar_type() == weight.scalar_type(), layer, ": rows in ", x.scalar_type(), ", weight in ", weight.scalar_type());
}

}  // namespace

at::Tensor Activate(const at::Tensor& x, Activation activation) {
  if (activation == Activation::kSilu) return at::silu(x);
  return at::gelu(x, activation == Activation::kGelu ? "none" : "tanh");
}

at::Tensor ActivateBackward(const at::Tensor& dy, const at::Tensor& x, Activation activation) {
  if (activation == Activation::kSilu) return at::silu_backward(dy, x);
  return at::gelu_backward(dy, x, activation == Activation::kGelu ? "none" : "tanh");
}

at::ScalarType StreamDtype(at::ScalarType matmul_dtype) { return matmul_dtype == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor RmsNorm(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps, at::ScalarType result_dtype) {
  CheckNorm("RmsNorm", x_TD, weight_D);
  return RmsNormFunction::apply(x_TD, weight_D, eps, result_dtype);
}

std::vector<at::Tensor> NormedLinear(const at::Tensor& x_TD, const at::Tensor& norm_D, double eps, const std::vector<at::Tensor>& weights,
                                     const std::vector<at::Tensor>& biases) {
  CheckNorm("NormedLinear", x_TD, norm_D);
  TORCH_CHECK(!weights.empty() && weights.size() == biases.size(), "NormedLinear: ", weights.size(), " maps, ", biases.size(), " biases");
  variable_list all = {x_TD, norm_D};
  all.insert(all.end(), weights.begin(), weights.end());
  std::vector<int64_t> biased;
  for (size_t i = 0; i < biases.size(); ++i) {
    if (!biases[i].defined()) continue;
    all.push_back(biases[i]);
    biased.push_back(static_cast<int64_t>(i));
  }
  return NormedLinearFunction::apply(at::TensorList(all), eps, biased);
}

at::Tensor Linear(const at::Tensor& x_TD, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x_TD, weight, IfDefined(bias));
}

at::Tensor GatedDown(const at::Tensor& gate_TI, const at::Tensor& up_TI, const at::Tensor& weight_DI, const at::Tensor& bias_D,
                     Activation activation) {
  TORCH_CHECK(gate_TI.sizes() == up_TI.sizes(), "GatedDown: gate of shape ", gate_TI.sizes(), ", up of shape ", up_TI.sizes());
  return GatedDownFunction::apply(gate_TI, up_TI, weight_DI, IfDefined(bias_D), activation);
}

}  // namespace moonring::model
