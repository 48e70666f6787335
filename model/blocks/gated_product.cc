#include "model/blocks/gated_product.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "kernels/choice.h"
#include "kernels/gated.h"
#include "model/blocks/composed_scope.h"

namespace moonring::model {
namespace {

kernels::Gate GateOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return kernels::Gate::kSilu;
    case Activation::kGelu:
      return kernels::Gate::kGelu;
    case Activation::kGeluTanh:
    case Activation::kReluSquared:  // has no fused kernel (see Fuses)
      break;
  }
  return kernels::Gate::kGeluTanh;
}

bool Fuses(const at::Tensor& gate_TI, const at::Tensor& up_TI, Activation activation) {
  return up_TI.defined() && activation != Activation::kReluSquared &&
         kernels::UseKernel(gate_TI, kernels::kGated) && !Composes();
}

// Returns x in fp32; an fp64 x stays in fp64.
at::Tensor Wide(const at::Tensor& x) {
  return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// The factors of gpt-oss's clamped product (gated_product.h), in new tensors.
struct Clamped {
  Clamped(const at::Tensor& gate_TI, const at::Tensor& up_TI, const ClampedGate& clamped)
      : gate(Wide(gate_TI).clamp_max(clamped.limit)),
        up(Wide(up_TI).clamp(-clamped.limit, clamped.limit).add_(1.0)),
        sigmoid((gate * clamped.slope).sigmoid_()) {}

  at::Tensor gate, up, sigmoid;  // g, u + 1, s
};

}  // namespace

at::Tensor Activate(const at::Tensor& x, Activation activation) {
  if (activation == Activation::kSilu) return at::silu(x);
  if (activation == Activation::kReluSquared) {
    const at::Tensor relu = at::relu(x);
    return Composes() ? relu.square() : relu.square_();
  }
  return at::gelu(x, activation == Activation::kGelu ? "none" : "tanh");
}

at::Tensor ActivateBackward(const at::Tensor& dy, const at::Tensor& x, Activation activation) {
  if (activation == Activation::kSilu) return at::silu_backward(dy, x);
  if (activation == Activation::kReluSquared) return at::relu(x).mul_(dy).mul_(2.0);
  return at::gelu_backward(dy, x, activation == Activation::kGelu ? "none" : "tanh");
}

at::Tensor GatedProduct(const at::Tensor& gate_TI, const at::Tensor& up_TI, Activation activation) {
  if (Fuses(gate_TI, up_TI, activation)) return kernels::Gated(gate_TI, up_TI, GateOf(activation));
  at::Tensor product = Activate(gate_TI, activation);
  if (!up_TI.defined()) return product;
  return Composes() ? product * up_TI : product.mul_(up_TI);
}

GatedProductAgain::GatedProductAgain(at::Tensor gate_TI, at::Tensor up_TI, Activation activation)
    : gate_(std::move(gate_TI)),
      up_(std::move(up_TI)),
      activation_(activation),
      fused_(Fuses(gate_, up_, activation)) {
  if (!fused_) activated_ = Activate(gate_, activation_);
}

at::Tensor GatedProductAgain::Product() const {
  if (fused_) return kernels::Gated(gate_, up_, GateOf(activation_));
  return up_.defined() ? activated_ * up_ : activated_;
}

GatedProductAgain::Gradients GatedProductAgain::Backward(at::Tensor dp_TI) {
  if (fused_) {
    at::Tensor d = dp_TI.contiguous();
    at::Tensor dup = kernels::GatedBackward(d, gate_, up_, GateOf(activation_));
    return {std::move(d), std::move(dup)};
  }
  if (!up_.defined()) return {ActivateBackward(dp_TI, gate_, activation_), {}};
  at::Tensor dup = activated_.mul_(dp_TI);
  return {ActivateBackward(dp_TI.mul_(up_), gate_, activation_), std::move(dup)};
}

at::Tensor ClampedProduct(const at::Tensor& gate_TI, const at::Tensor& up_TI,
                          const ClampedGate& clamped) {
  const Clamped c(gate_TI, up_TI, clamped);
  return (c.gate * c.sigmoid).mul_(c.up).to(gate_TI.scalar_type());
}

GatedProductAgain::Gradients ClampedProductBackward(const at::Tensor& dp_TI,
                                                    const at::Tensor& gate_TI,
                                                    const at::Tensor& up_TI,
                                                    const ClampedGate& clamped) {
  const Clamped c(gate_TI, up_TI, clamped);
  const at::Tensor dp = Wide(dp_TI);
  at::Tensor slope = (1.0 - c.sigmoid).mul_(c.gate).mul_(clamped.slope).add_(1.0).mul_(c.sigmoid);
  at::Tensor dgate = slope.mul_(c.up).mul_(dp).masked_fill_(gate_TI.gt(clamped.limit), 0.0);
  at::Tensor dup = (c.gate * c.sigmoid).mul_(dp).masked_fill_(up_TI.abs().gt(clamped.limit), 0.0);
  return {dgate.to(gate_TI.scalar_type()), dup.to(gate_TI.scalar_type())};
}

}  // namespace moonring::model
