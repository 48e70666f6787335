#ifndef MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_
#define MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_

// The element-wise product of a gated MLP, p = act(gate) up, computed without an autograd graph.
// Uses the fused kernels of kernels/gated.h on a GPU that has them (kernels/choice.h), otherwise
// LibTorch's operators. layers.h lists the activations. If `up` is undefined the MLP has no gate: p
// = act(gate).
//
// gpt-oss has another product, with clamping. It is computed in fp32 (fp64 for fp64 inputs), always
// by LibTorch's operators:
//
//   p = (u + 1) g sigmoid(slope g),   g = min(gate, limit),   u = max(-limit, min(up, limit))

#include <ATen/core/Tensor.h>

#include "model/config/activation.h"
#include "model/config/config.h"

namespace moonring::model {

at::Tensor Activate(const at::Tensor& x, Activation activation);
// Returns act'(x) * dy.
at::Tensor ActivateBackward(const at::Tensor& dy, const at::Tensor& x, Activation activation);

at::Tensor GatedProduct(const at::Tensor& gate_TI, const at::Tensor& up_TI, Activation activation);

// For a backward: recomputes the product p any number of times, then computes the gradients.
// Without the fused kernels, keeps act(gate) in between.
class GatedProductAgain {
 public:
  GatedProductAgain(at::Tensor gate_TI, at::Tensor up_TI, Activation activation);

  at::Tensor Product() const;

  struct Gradients {
    at::Tensor gate_TI, up_TI;  // gradients; up_TI is undefined if the MLP has no gate
  };
  // Given dp, the gradient of p, returns the gradients of up, d up = dp act(gate), and of gate, d
  // gate = dp up act'(gate). Must be the last call on this object; overwrites `dp_TI`.
  Gradients Backward(at::Tensor dp_TI);

 private:
  at::Tensor gate_, up_;
  const Activation activation_;
  const bool fused_;
  at::Tensor activated_;
};

at::Tensor ClampedProduct(const at::Tensor& gate_TI, const at::Tensor& up_TI,
                          const ClampedGate& clamped);
// Gradients of the clamped product, given dp, the gradient of p. With s = sigmoid(slope g): d up =
// dp g s, d gate = dp (u + 1) s (1 + slope g (1 - s)); 0 where the input was clamped.
GatedProductAgain::Gradients ClampedProductBackward(const at::Tensor& dp_TI,
                                                    const at::Tensor& gate_TI,
                                                    const at::Tensor& up_TI,
                                                    const ClampedGate& clamped);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_
