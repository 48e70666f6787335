#include "model/blocks/gated_norm.h"

#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "base/autograd/custom_function.h"
#include "model/blocks/rms_norm.h"

namespace moonring::model {

namespace {

at::Tensor Opened(NormGate kind, const at::Tensor& gate) {
  return kind == NormGate::kSilu ? at::silu(gate) : at::sigmoid(gate);
}

at::Tensor OpenedBackward(NormGate kind, const at::Tensor& gradient, const at::Tensor& gate) {
  return kind == NormGate::kSilu ? at::silu_backward(gradient, gate)
                                 : at::sigmoid_backward(gradient, at::sigmoid(gate));
}

base::Tensors Groups(const at::Tensor& x, int64_t groups, int64_t dim) {
  base::Tensors parts;
  for (const at::Tensor& part : x.chunk(groups, dim)) parts.push_back(part.contiguous());
  return parts;
}

at::Tensor Joined(base::Tensors parts, int64_t dim) {
  return parts.size() == 1 ? std::move(parts[0]) : at::cat(parts, dim);
}

}  // namespace

// Forward: n = RmsNorm(x), y = n s(z), with z the gate and s its activation. Backward: dn = dy
// s(z), dz = dy n s'(z).
at::Tensor GatedRmsNorm(const at::Tensor& x_TD, const at::Tensor& gate_TD,
                        const at::Tensor& weight_D, double eps, NormGate kind) {
  TORCH_CHECK(x_TD.dim() == 2 && gate_TD.sizes() == x_TD.sizes() && weight_D.dim() == 1 &&
                  weight_D.size(0) == x_TD.size(1),
              "gated norm: rows of shape ", x_TD.sizes(), ", gate of shape ", gate_TD.sizes(),
              ", weight of shape ", weight_D.sizes());
  return base::ApplyToOne(
      {.name = "gated norm",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         const at::ScalarType wide = weight_D.scalar_type();
         NormedRows normed = NormRows(x_TD, weight_D, eps, wide);
         *saved = {x_TD, gate_TD, weight_D, std::move(normed.rstd_T1)};
         return {normed.y_TD.mul_(Opened(kind, gate_TD.to(wide))).to(x_TD.scalar_type())};
       },
       .backward = [eps, kind](base::BackwardCall& call) -> base::Tensors {
         const at::Tensor &x = call.saved[0], &weight = call.saved[2], &rstd = call.saved[3];
         const at::ScalarType wide = weight.scalar_type();
         const at::Tensor gate = call.saved[1].to(wide), dy = call.gradients[0].to(wide);
         base::Tensors gradients(3);
         if (call.wanted[1]) {
           const at::Tensor normed = NormRowsAgain(x, weight, rstd, eps, wide);
           gradients[1] = OpenedBackward(kind, dy * normed, gate).to(call.saved[1].scalar_type());
         }
         if (!call.wanted[0] && !call.wanted[2]) return gradients;
         NormGradients d = NormRowsBackward(dy * Opened(kind, gate), x, weight, rstd,
                                            call.wanted[0], call.wanted[2]);
         gradients[0] = std::move(d.x_TD);
         gradients[2] = std::move(d.weight_D);
         return gradients;
       }},
      {x_TD, gate_TD, weight_D});
}

// Forward: p = x silu(z) with z the gate, y = RmsNorm(p). Backward: dx = dp silu(z), dz = dp x
// silu'(z).
at::Tensor NormOfGated(const at::Tensor& x_TD, const at::Tensor& gate_TD,
                       const at::Tensor& weight_D, double eps, int64_t groups) {
  TORCH_CHECK(x_TD.dim() == 2 && gate_TD.sizes() == x_TD.sizes() && weight_D.dim() == 1 &&
                  weight_D.size(0) == x_TD.size(1) && groups > 0 && x_TD.size(1) % groups == 0,
              "norm of what is gated: rows of shape ", x_TD.sizes(), ", gate of shape ",
              gate_TD.sizes(), ", weight of shape ", weight_D.sizes(), ", ", groups, " groups");
  return base::ApplyToOne(
      {.name = "norm of what is gated",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         const at::ScalarType wide = weight_D.scalar_type();
         const base::Tensors product = Groups(at::silu(gate_TD.to(wide)).mul_(x_TD), groups, 1);
         const base::Tensors weights = Groups(weight_D, groups, 0);
         base::Tensors results, rstd;
         for (int64_t g = 0; g < groups; ++g) {
           NormedRows normed = NormRows(product[g], weights[g], eps, x_TD.scalar_type());
           results.push_back(std::move(normed.y_TD));
           rstd.push_back(std::move(normed.rstd_T1));
         }
         *saved = {x_TD, gate_TD, weight_D, Joined(std::move(rstd), 1)};
         return {Joined(std::move(results), 1)};
       },
       .backward = [groups](base::BackwardCall& call) -> base::Tensors {
         const at::Tensor& weight = call.saved[2];
         const at::ScalarType wide = weight.scalar_type();
         const at::Tensor x = call.saved[0].to(wide), gate = call.saved[1].to(wide),
                          opened = at::silu(gate);
         const base::Tensors product = Groups(x * opened, groups, 1),
                             dy = Groups(call.gradients[0].to(wide), groups, 1),
                             rstd = Groups(call.saved[3], groups, 1),
                             weights = Groups(weight, groups, 0);
         const bool of_rows = call.wanted[0] || call.wanted[1];
         base::Tensors d_product, d_weight;
         for (int64_t g = 0; g < groups; ++g) {
           NormGradients made =
               NormRowsBackward(dy[g], product[g], weights[g], rstd[g], of_rows, call.wanted[2]);
           d_product.push_back(std::move(made.x_TD));
           d_weight.push_back(std::move(made.weight_D));
         }
         base::Tensors gradients(3);
         if (call.wanted[2]) gradients[2] = Joined(std::move(d_weight), 0);
         if (!of_rows) return gradients;
         const at::Tensor d = Joined(std::move(d_product), 1);
         if (call.wanted[0]) gradients[0] = (d * opened).to(call.saved[0].scalar_type());
         if (call.wanted[1])
           gradients[1] = at::silu_backward(d * x, gate).to(call.saved[1].scalar_type());
         return gradients;
       }},
      {x_TD, gate_TD, weight_D});
}

}  // namespace moonring::model
