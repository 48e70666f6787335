#include "model/blocks/layers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linear.h>

#include "base/autograd/custom_function.h"
#include "kernels/products/products.h"
#include "kernels/rms_norm.h"
#include "model/blocks/composed_scope.h"
#include "model/blocks/rms_norm.h"

namespace moonring::model {
namespace {

using base::BackwardCall;
using base::Tensors;

void CheckNorm(const char* layer, const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 1 && x.size(1) == weight.size(0), layer,
              ": rows of shape ", x.sizes(), ", weight of shape ", weight.sizes());
  TORCH_CHECK(weight.scalar_type() == WideDtype(x.scalar_type()), layer, ": rows in ",
              x.scalar_type(), ", weight in ", weight.scalar_type());
}

// Returns x W^T + b, without recording an autograd graph.
at::Tensor LinearValues(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!bias.defined()) return kernels::Product(x, weight.t());
  at::Tensor y = bias.expand({x.size(0), bias.size(0)}).clone(at::MemoryFormat::Contiguous);
  kernels::AddProduct(y, x, weight.t());
  return y;
}

// Sets sum to sum + a b, or to a b if sum is undefined.
void AddOrMake(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (sum.defined()) {
    kernels::AddProduct(sum, a, b);
  } else {
    sum = kernels::Product(a, b);
  }
}

// RmsNorm of operators that can be differentiated twice (composed_scope.h).
at::Tensor ComposedNorm(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps,
                        at::ScalarType result_dtype) {
  const at::Tensor x = x_TD.to(weight_D.scalar_type());
  return (x * (x.square().mean(-1, /*keepdim=*/true) + eps).rsqrt() * weight_D).to(result_dtype);
}

}  // namespace

at::ScalarType WideDtype(at::ScalarType matmul_dtype) {
  return matmul_dtype == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor RmsNorm(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps,
                   at::ScalarType result_dtype) {
  CheckNorm("RmsNorm", x_TD, weight_D);
  if (Composes()) return ComposedNorm(x_TD, weight_D, eps, result_dtype);
  return base::ApplyToOne({.name = "RmsNorm",
                           .forward = [&](Tensors* saved) -> Tensors {
                             NormedRows normed = NormRows(x_TD, weight_D, eps, result_dtype);
                             *saved = {x_TD, weight_D, std::move(normed.rstd_T1)};
                             return {std::move(normed.y_TD)};
                           },
                           .backward = [](BackwardCall& call) -> Tensors {
                             NormGradients d =
                                 NormRowsBackward(call.gradients[0], call.saved[0], call.saved[1],
                                                  call.saved[2], call.wanted[0], call.wanted[1]);
                             return {std::move(d.x_TD), std::move(d.weight_D)};
                           }},
                          {x_TD, weight_D});
}

at::Tensor AddRows(const at::Tensor& x_TD, at::Tensor y_TD, double scale) {
  if (scale != 1.0 || Composes()) return at::add(x_TD, y_TD, scale);
  return y_TD.scalar_type() == x_TD.scalar_type() ? y_TD.add_(x_TD) : at::add(x_TD, y_TD);
}

// Forward: s = x + c y with c = scale, n = RmsNorm(s). Backward: ds is the gradient of the result s
// plus the gradient through n; dx = ds, dy = c ds.
SumAndNorm AddAndNorm(const at::Tensor& x_TD, at::Tensor y_TD, double scale,
                      const at::Tensor& weight_D, double eps, at::ScalarType result_dtype) {
  if (!HasRmsNormKernel(x_TD) || Composes()) {
    const at::Tensor sum = AddRows(x_TD, std::move(y_TD), scale);
    return {sum, RmsNorm(sum, weight_D, eps, result_dtype)};
  }
  CheckNorm("AddAndNorm", x_TD, weight_D);
  const auto forward = [&](Tensors* saved) -> Tensors {
    kernels::RmsNormed made = kernels::RmsNorm(x_TD, y_TD, scale, weight_D, eps, result_dtype);
    *saved = {made.sum_TD, weight_D, made.rstd_T1};
    return {made.sum_TD, made.y_TD};
  };
  const auto backward = [scale, added = y_TD.scalar_type()](BackwardCall& call) -> Tensors {
    const at::Tensor &sum = call.saved[0], &dsum = call.gradients[0], &dnormed = call.gradients[1];
    if (!dnormed.defined()) {
      if (!dsum.defined()) return {};
      return {dsum, (scale == 1.0 ? dsum : dsum * scale).to(added)};
    }
    kernels::RmsNormGradients d =
        kernels::RmsNormBackward(dnormed, sum, call.saved[1], call.saved[2], dsum, scale,
                                 {.x = call.wanted[0],
                                  .weight = call.wanted[2],
                                  .added = call.wanted[1],
                                  .added_dtype = added});
    return {std::move(d.x_TD), std::move(d.added_TD), std::move(d.weight_D)};
  };
  Tensors made = base::Apply(
      {.name = "AddAndNorm", .forward = forward, .backward = backward, .undefined_gradients = true},
      {x_TD, y_TD, weight_D});
  return {std::move(made[0]), std::move(made[1])};
}

// Forward: n = RmsNorm(x), y_i = n W_i^T + b_i. Backward: recomputes n; dn = sum_i dy_i W_i, dW_i =
// dy_i^T n.
std::vector<at::Tensor> NormedLinear(const at::Tensor& x_TD, const at::Tensor& norm_D, double eps,
                                     const std::vector<at::Tensor>& weights,
                                     const std::vector<at::Tensor>& biases,
                                     const std::vector<WeightSum>& sums) {
  CheckNorm("NormedLinear", x_TD, norm_D);
  TORCH_CHECK(!weights.empty() && weights.size() == biases.size() &&
                  (sums.empty() || sums.size() == weights.size()),
              "NormedLinear: ", weights.size(), " maps, ", biases.size(), " biases, ", sums.size(),
              " sums");
  if (Composes()) {
    const at::Tensor normed = ComposedNorm(x_TD, norm_D, eps, weights[0].scalar_type());
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < weights.size(); ++i)
      results.push_back(Linear(normed, weights[i], biases[i], nullptr));
    return results;
  }
  // The inputs of the autograd function: x, the norm's weight, the weights of the linear maps, and
  // their biases (undefined if absent).
  constexpr size_t kMaps = 2;
  const size_t maps = weights.size(), first_bias = kMaps + maps;
  Tensors inputs = {x_TD, norm_D};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  const auto forward = [&](Tensors* saved) -> Tensors {
    NormedRows normed = NormRows(x_TD, norm_D, eps, weights[0].scalar_type());
    Tensors results;
    for (size_t i = 0; i < maps; ++i) {
      results.push_back(LinearValues(normed.y_TD, weights[i], biases[i]));
    }
    saved->assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(first_bias));
    saved->push_back(std::move(normed.rstd_T1));
    return results;
  };
  const auto backward = [maps, first_bias, eps, sums](BackwardCall& call) -> Tensors {
    const at::Tensor &x = call.saved[0], &weight = call.saved[1], &rstd = call.saved.back();
    Tensors &dys = call.gradients, gradients(call.wanted.size());
    at::Tensor normed = NormRowsAgain(x, weight, rstd, eps, call.saved[kMaps].scalar_type());
    for (size_t i = 0; i < maps; ++i) {
      if (dys[i].defined() && call.wanted[kMaps + i])
        gradients[kMaps + i] =
            kernels::GradientProduct(sums.empty() ? nullptr : sums[i], dys[i].t(), normed);
    }
    normed.reset();
    for (size_t i = 0; i < maps; ++i) {
      if (dys[i].defined() && call.wanted[first_bias + i])
        gradients[first_bias + i] = dys[i].sum(0);
    }
    if (!call.wanted[0] && !call.wanted[1]) return gradients;
    at::Tensor dnormed;
    for (size_t i = 0; i < maps; ++i) {
      const at::Tensor& map = call.saved[kMaps + i];
      if (dys[i].defined()) AddOrMake(dnormed, dys[i], map);
      dys[i].reset();
    }
    if (!dnormed.defined()) return gradients;
    NormGradients d = NormRowsBackward(dnormed, x, weight, rstd, call.wanted[0], call.wanted[1]);
    gradients[0] = std::move(d.x_TD);
    gradients[1] = std::move(d.weight_D);
    return gradients;
  };
  return base::Apply({.name = "NormedLinear",
                      .forward = forward,
                      .backward = backward,
                      .undefined_gradients = true},
                     inputs);
}

// Forward: y = x W^T + b. Backward: dx = dy W, dW = dy^T x, db = sum_T dy.
at::Tensor Linear(const at::Tensor& x_TD, const at::Tensor& weight, const at::Tensor& bias,
                  const WeightSum& sum) {
  if (Composes()) return bias.defined() ? at::linear(x_TD, weight, bias) : at::linear(x_TD, weight);
  return base::ApplyToOne({.name = "Linear",
                           .forward = [&](Tensors* saved) -> Tensors {
                             *saved = {x_TD, weight};
                             return {LinearValues(x_TD, weight, bias)};
                           },
                           .backward = [sum](BackwardCall& call) -> Tensors {
                             const at::Tensor &x = call.saved[0], &w = call.saved[1],
                                              &dy = call.gradients[0];
                             at::Tensor dx, dweight, dbias;
                             if (call.wanted[0]) dx = kernels::Product(dy, w);
                             if (call.wanted[1]) dweight = kernels::GradientProduct(sum, dy.t(), x);
                             if (call.wanted[2]) dbias = dy.sum(0);
                             return {dx, dweight, dbias};
                           }},
                          {x_TD, weight, bias});
}

// Forward: p = act(gate) up, y = p W^T + b. Backward: dp = dy W, dW = dy^T p, d up = dp act(gate),
// d gate = dp up act'(gate).
at::Tensor GatedDown(const at::Tensor& gate_TI, const at::Tensor& up_TI,
                     const at::Tensor& weight_DI, const at::Tensor& bias_D, Activation activation,
                     const WeightSum& sum) {
  TORCH_CHECK(!up_TI.defined() || gate_TI.sizes() == up_TI.sizes(), "GatedDown: gate of shape ",
              gate_TI.sizes(), ", up of shape ", up_TI.sizes());
  if (Composes())
    return Linear(GatedProduct(gate_TI, up_TI, activation), weight_DI, bias_D, nullptr);
  return base::ApplyToOne(
      {.name = "GatedDown",
       .forward = [&](Tensors* saved) -> Tensors {
         *saved = {gate_TI, up_TI, weight_DI};
         return {LinearValues(GatedProduct(gate_TI, up_TI, activation), weight_DI, bias_D)};
       },
       .backward = [activation, sum](BackwardCall& call) -> Tensors {
         const at::Tensor &gate = call.saved[0], &up = call.saved[1], &weight = call.saved[2];
         const at::Tensor& dy = call.gradients[0];
         GatedProductAgain product(gate, up, activation);
         GatedProductAgain::Gradients d;
         at::Tensor dweight, dbias;
         if (call.wanted[2]) dweight = kernels::GradientProduct(sum, dy.t(), product.Product());
         if (call.wanted[3]) dbias = dy.sum(0);
         if (call.wanted[0] || call.wanted[1]) d = product.Backward(kernels::Product(dy, weight));
         return {d.gate_TI, d.up_TI, dweight, dbias};
       }},
      {gate_TI, up_TI, weight_DI, bias_D});
}

}  // namespace moonring::model
