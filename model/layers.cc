#include "model/layers.h"

#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
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

// `sign` is 1 to rotate and -1 to rotate back. Both halves are written into one fresh contiguous tensor.
at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double sign) {
  const at::Tensor wide = x.to(cos.scalar_type());
  const int64_t half = x.size(-1) / 2;
  const at::Tensor first = wide.narrow(-1, 0, half), second = wide.narrow(-1, half, half);
  const at::Tensor result = at::empty_like(wide, at::MemoryFormat::Contiguous);
  at::Tensor first_result = result.narrow(-1, 0, half), second_result = result.narrow(-1, half, half);
  at::mul_out(first_result, first, cos).addcmul_(second, sin, -sign);
  at::mul_out(second_result, second, cos).addcmul_(first, sin, sign);
  return result.to(x.scalar_type());
}

// A rotation is orthogonal: its backward is the rotation by the opposite angle.
class RotaryFunction : public torch::autograd::Function<RotaryFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return Rotate(x, cos, sin, 1.0);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RefuseSecondDerivative("Rotary");
    const variable_list saved = ctx->get_saved_variables();
    return {Rotate(gradients[0], saved[0], saved[1], -1.0), at::Tensor(), at::Tensor()};
  }
};

// p = silu(gate) up, y = p W^T + b:  dp = dy W,  dW = dy^T p,  dup = dp silu(gate),  dgate = dp up silu'(gate).
class GatedDownFunction : public torch::autograd::Function<GatedDownFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    ctx->save_for_backward({gate, up, weight});
    ctx->saved_data["bias"] = bias.has_value();
    return at::linear(at::silu(gate).mul_(up), weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RefuseSecondDerivative("GatedDown");
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &weight = saved[2];
    const at::Tensor& dy = gradients[0];
    at::Tensor activated = at::silu(gate);
    at::Tensor dgate, dup, dweight, dbias;
    if (ctx->needs_input_grad(2)) dweight = dy.t().mm(activated * up);
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(3)) dbias = dy.sum(0);
    if (ctx->needs_input_grad(0) || ctx->needs_input_grad(1)) {
      at::Tensor dproduct = dy.mm(weight);
      dup = activated.mul_(dproduct);
      dgate = at::silu_backward(dproduct.mul_(up), gate);
    }
    return {dgate, dup, dweight, dbias};
  }
};

}  // namespace

at::ScalarType StreamDtype(at::ScalarType matmul_dtype) { return matmul_dtype == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor RmsNorm(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps, at::ScalarType result_dtype) {
  TORCH_CHECK(x_TD.dim() == 2 && weight_D.dim() == 1 && x_TD.size(1) == weight_D.size(0), "RmsNorm: rows of shape ", x_TD.sizes(), ", weight of shape ",
              weight_D.sizes());
  TORCH_CHECK(x_TD.scalar_type() == weight_D.scalar_type(), "RmsNorm: rows in ", x_TD.scalar_type(), ", weight in ", weight_D.scalar_type());
  return RmsNormFunction::apply(x_TD, weight_D, eps, result_dtype);
}

Rotary MakeRotary(const at::Tensor& positions_T, int64_t head_dim, double theta, at::ScalarType dtype) {
  TORCH_CHECK(head_dim > 0 && head_dim % 2 == 0, "Rotary: head_dim ", head_dim, " is not an even positive number");
  TORCH_CHECK(positions_T.dim() == 1, "Rotary: positions of shape ", positions_T.sizes(), ", wanted [T]");
  at::NoGradGuard no_grad;
  // 1 / theta^e, not theta^-e: the roundings of Transformers, so that fp32 angles agree to the last bit.
  const at::Tensor exponents_F = at::arange(0, head_dim, 2, positions_T.options().dtype(dtype)) / static_cast<double>(head_dim);
  const at::Tensor frequencies_F = at::pow(theta, exponents_F).reciprocal_();
  const at::Tensor angles_T1F = (positions_T.to(dtype).unsqueeze(1) * frequencies_F).unsqueeze(1);
  return {angles_T1F.cos(), angles_T1F.sin()};
}

at::Tensor ApplyRotary(const at::Tensor& x_THD, const Rotary& rotary) {
  TORCH_CHECK(x_THD.dim() == 3 && x_THD.size(0) == rotary.cos_T1F.size(0) && x_THD.size(2) == 2 * rotary.cos_T1F.size(2), "Rotary: rows of shape ", x_THD.sizes(),
              ", cosines of shape ", rotary.cos_T1F.sizes());
  return RotaryFunction::apply(x_THD, rotary.cos_T1F, rotary.sin_T1F);
}

at::Tensor Linear(const at::Tensor& x_TD, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x_TD, weight, IfDefined(bias));
}

at::Tensor GatedDown(const at::Tensor& gate_TI, const at::Tensor& up_TI, const at::Tensor& weight_DI, const at::Tensor& bias_D) {
  TORCH_CHECK(gate_TI.sizes() == up_TI.sizes(), "GatedDown: gate of shape ", gate_TI.sizes(), ", up of shape ", up_TI.sizes());
  return GatedDownFunction::apply(gate_TI, up_TI, weight_DI, IfDefined(bias_D));
}

}  // namespace moonring::model
