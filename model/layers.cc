#include "model/layers.h"

#include <optional>

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

// With n = x r (r = 1/sqrt(mean(x^2) + eps)):  dw = sum_T dy n,  dx = r (dy w - n mean_D(dy w n)).
class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType result_dtype) {
    const at::Tensor rstd = x.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
    ctx->save_for_backward({x, weight, rstd});
    return (x * rstd).mul_(weight).to(result_dtype);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RefuseSecondDerivative("RmsNorm");
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &rstd = saved[2];
    const at::Tensor dy = gradients[0].to(x.scalar_type());
    const at::Tensor normed = x * rstd;
    at::Tensor product = dy * normed;
    at::Tensor dx, dweight;
    if (ctx->needs_input_grad(1)) dweight = product.sum(0);
    if (ctx->needs_input_grad(0)) {
      const at::Tensor mean = product.mul_(weight).mean(-1, /*keepdim=*/true);
      dx = (dy * weight).sub_(normed.mul_(mean)).mul_(rstd);
    }
    return {dx, dweight, at::Tensor(), at::Tensor()};
  }
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
  TORCH_CHECK(x_TD.dim() == 2 && weight_D.dim() == 1 && x_TD.size(1) == weight_D.size(0), "RmsNorm: rows of shape ", x_TD.sizes(), ", weight of shape ",
              weight_D.sizes());
  TORCH_CHECK(x_TD.scalar_type() == weight_D.scalar_type(), "RmsNorm: rows in ", x_TD.scalar_type(), ", weight in ", weight_D.scalar_type());
  return RmsNormFunction::apply(x_TD, weight_D, eps, result_dtype);
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
