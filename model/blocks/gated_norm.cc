#include "model/blocks/gated_norm.h"

#include <utility>

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "comm/autograd/custom_function.h"
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

}  // namespace

// n = RmsNorm(x), y = n s(z):  dn = dy s(z),  dz = dy n s'(z).
at::Tensor GatedRmsNorm(const at::Tensor& x_TD, const at::Tensor& gate_TD,
                        const at::Tensor& weight_D, double eps, NormGate kind) {
  TORCH_CHECK(x_TD.dim() == 2 && gate_TD.sizes() == x_TD.sizes() && weight_D.dim() == 1 &&
                  weight_D.size(0) == x_TD.size(1),
              "gated norm: rows of shape ", x_TD.sizes(), ", gate of shape ", gate_TD.sizes(),
              ", weight of shape ", weight_D.sizes());
  return comm::ApplyToOne(
      {.name = "gated norm",
       .forward = [&](comm::Tensors* saved) -> comm::Tensors {
         const at::ScalarType wide = weight_D.scalar_type();
         NormedRows normed = NormRows(x_TD, weight_D, eps, wide);
         *saved = {x_TD, gate_TD, weight_D, std::move(normed.rstd_T1)};
         return {normed.y_TD.mul_(Opened(kind, gate_TD.to(wide))).to(x_TD.scalar_type())};
       },
       .backward = [eps, kind](comm::BackwardCall& call) -> comm::Tensors {
         const at::Tensor &x = call.saved[0], &weight = call.saved[2], &rstd = call.saved[3];
         const at::ScalarType wide = weight.scalar_type();
         const at::Tensor gate = call.saved[1].to(wide), dy = call.gradients[0].to(wide);
         comm::Tensors gradients(3);
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

}  // namespace moonring::model
