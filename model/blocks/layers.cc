#include "model/blocks/layers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "comm/autograd/custom_function.h"
#include "comm/products/products.h"

namespace moonring::model {
namespace {

using comm::BackwardCall;
using comm::Tensors;

at::Tensor Rstd(const at::Tensor& x, double eps) {
  return x.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
}

struct RmsNormGradients {
  at::Tensor x, weight;
};

// With n = x r (r = 1/sqrt(mean(x^2) + eps)):  dw = sum_T dy n,  dx = r (dy w - n mean_D(dy w n)).
// Undefined where not wanted.
RmsNormGradients RmsNormBackward(const at::Tensor& dy, const at::Tensor& x,
                                 const at::Tensor& weight, const at::Tensor& rstd, bool needs_x,
                                 bool needs_weight) {
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

void CheckNorm(const char* layer, const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 1 && x.size(1) == weight.size(0), layer,
              ": rows of shape ", x.sizes(), ", weight of shape ", weight.sizes());
  TORCH_CHECK(x.scalar_type() == weight.scalar_type(), layer, ": rows in ", x.scalar_type(),
              ", weight in ", weight.scalar_type());
}

// x W^T + b, without a graph.
at::Tensor LinearValues(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!bias.defined()) return comm::Product(x, weight.t());
  at::Tensor y = bias.expand({x.size(0), bias.size(0)}).clone(at::MemoryFormat::Contiguous);
  comm::AddProduct(y, x, weight.t());
  return y;
}

// sum <- sum + a b; a b where there is no sum yet.
void AddOrMake(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (sum.defined()) {
    comm::AddProduct(sum, a, b);
  } else {
    sum = comm::Product(a, b);
  }
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

at::ScalarType StreamDtype(at::ScalarType matmul_dtype) {
  return matmul_dtype == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor RmsNorm(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps,
                   at::ScalarType result_dtype) {
  CheckNorm("RmsNorm", x_TD, weight_D);
  return comm::ApplyToOne(
      {.name = "RmsNorm",
       .forward = [&](Tensors* saved) -> Tensors {
         const at::Tensor rstd = Rstd(x_TD, eps);
         *saved = {x_TD, weight_D, rstd};
         return {(x_TD * rstd).mul_(weight_D).to(result_dtype)};
       },
       .backward = [](BackwardCall& call) -> Tensors {
         const at::Tensor &x = call.saved[0], &weight = call.saved[1], &rstd = call.saved[2];
         const at::Tensor dy = call.gradients[0].to(x.scalar_type());
         RmsNormGradients d = RmsNormBackward(dy, x, weight, rstd, call.wanted[0], call.wanted[1]);
         return {std::move(d.x), std::move(d.weight)};
       }},
      {x_TD, weight_D});
}

// n = RmsNorm(x), y_i = n W_i^T + b_i:  dn = sum_i dy_i W_i,  dW_i = dy_i^T n,  with n made again.
std::vector<at::Tensor> NormedLinear(const at::Tensor& x_TD, const at::Tensor& norm_D, double eps,
                                     const std::vector<at::Tensor>& weights,
                                     const std::vector<at::Tensor>& biases) {
  CheckNorm("NormedLinear", x_TD, norm_D);
  TORCH_CHECK(!weights.empty() && weights.size() == biases.size(), "NormedLinear: ", weights.size(),
              " maps, ", biases.size(), " biases");
  // Inputs: x, the norm's weight, the maps' weights, their biases (undefined where there is none).
  constexpr size_t kMaps = 2;
  const size_t maps = weights.size(), first_bias = kMaps + maps;
  Tensors inputs = {x_TD, norm_D};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  const auto forward = [&](Tensors* saved) -> Tensors {
    const at::Tensor rstd = Rstd(x_TD, eps);
    const at::Tensor normed = (x_TD * rstd).mul_(norm_D).to(weights[0].scalar_type());
    Tensors results;
    for (size_t i = 0; i < maps; ++i) {
      results.push_back(LinearValues(normed, weights[i], biases[i]));
    }
    saved->assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(first_bias));
    saved->push_back(rstd);
    return results;
  };
  const auto backward = [maps, first_bias](BackwardCall& call) -> Tensors {
    const at::Tensor &x = call.saved[0], &weight = call.saved[1], &rstd = call.saved.back();
    Tensors &dys = call.gradients, gradients(call.wanted.size());
    at::Tensor normed = (x * rstd).mul_(weight).to(call.saved[kMaps].scalar_type());
    for (size_t i = 0; i < maps; ++i) {
      if (dys[i].defined() && call.wanted[kMaps + i])
        gradients[kMaps + i] = comm::Product(dys[i].t(), normed);
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
    RmsNormGradients d = RmsNormBackward(dnormed.to(x.scalar_type()), x, weight, rstd,
                                         call.wanted[0], call.wanted[1]);
    gradients[0] = std::move(d.x);
    gradients[1] = std::move(d.weight);
    return gradients;
  };
  return comm::Apply({.name = "NormedLinear",
                      .forward = forward,
                      .backward = backward,
                      .undefined_gradients = true},
                     inputs);
}

// dx = dy W,  dW = dy^T x,  db = sum_T dy.
at::Tensor Linear(const at::Tensor& x_TD, const at::Tensor& weight, const at::Tensor& bias) {
  return comm::ApplyToOne({.name = "Linear",
                           .forward = [&](Tensors* saved) -> Tensors {
                             *saved = {x_TD, weight};
                             return {LinearValues(x_TD, weight, bias)};
                           },
                           .backward = [](BackwardCall& call) -> Tensors {
                             const at::Tensor &x = call.saved[0], &w = call.saved[1],
                                              &dy = call.gradients[0];
                             at::Tensor dx, dweight, dbias;
                             if (call.wanted[0]) dx = comm::Product(dy, w);
                             if (call.wanted[1]) dweight = comm::Product(dy.t(), x);
                             if (call.wanted[2]) dbias = dy.sum(0);
                             return {dx, dweight, dbias};
                           }},
                          {x_TD, weight, bias});
}

// p = act(gate) up, y = p W^T + b:  dp = dy W,  dW = dy^T p,  dup = dp act(gate),  dgate = dp up
// act'(gate).
at::Tensor GatedDown(const at::Tensor& gate_TI, const at::Tensor& up_TI,
                     const at::Tensor& weight_DI, const at::Tensor& bias_D, Activation activation) {
  TORCH_CHECK(gate_TI.sizes() == up_TI.sizes(), "GatedDown: gate of shape ", gate_TI.sizes(),
              ", up of shape ", up_TI.sizes());
  return comm::ApplyToOne(
      {.name = "GatedDown",
       .forward = [&](Tensors* saved) -> Tensors {
         *saved = {gate_TI, up_TI, weight_DI};
         return {LinearValues(Activate(gate_TI, activation).mul_(up_TI), weight_DI, bias_D)};
       },
       .backward = [activation](BackwardCall& call) -> Tensors {
         const at::Tensor &gate = call.saved[0], &up = call.saved[1], &weight = call.saved[2];
         const at::Tensor& dy = call.gradients[0];
         at::Tensor activated = Activate(gate, activation);
         at::Tensor dgate, dup, dweight, dbias;
         if (call.wanted[2]) dweight = comm::Product(dy.t(), activated * up);
         if (call.wanted[3]) dbias = dy.sum(0);
         if (call.wanted[0] || call.wanted[1]) {
           at::Tensor dproduct = comm::Product(dy, weight);
           dup = activated.mul_(dproduct);
           dgate = ActivateBackward(dproduct.mul_(up), gate, activation);
         }
         return {dgate, dup, dweight, dbias};
       }},
      {gate_TI, up_TI, weight_DI, bias_D});
}

}  // namespace moonring::model
