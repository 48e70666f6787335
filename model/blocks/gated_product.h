#ifndef MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_
#define MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_

// The element-wise product of a gated MLP, p = act(gate) up, without an autograd graph: by the
// fused kernels of kernels/gated.h if a GPU has them (kernels/choice.h), else by
// LibTorch's operators. layers.h lists the activations. If `up` is undefined the MLP has no gate: p
// = act(gate).
//
// gpt-oss has another product, with clamping; it is computed in the wide dtype (fp32, or fp64 for
// fp64), always by LibTorch's operators:
//
//   p = (u + 1) g sigmoid(slope g),   g = min(gate, limit),   u = max(-limit, min(up, limit))

#include <ATen/core/Tensor.h>

#include "model/config/activation.h"
#include "model/config/config.h"

namespace moonring::model {

at::Tensor Activate(const at::Tensor& x, Activation activation);
// Derivative of the activation at x, times `dy`.
at::Tensor ActivateBackward(const at::Tensor& dy, const at::Tensor& x, Activation activation);

at::Tensor GatedProduct(const at::Tensor& gate_TI, const at::Tensor& up_TI, Activation activation);

// Recomputes the product in a backward, any number of times, and then its gradients. Keeps
// act(gate) in between if the fused kernels are not used.
class GatedProductAgain {
 public:
  GatedProductAgain(at::Tensor gate_TI, at::Tensor up_TI, Activation activation);

  at::Tensor Product() const;

  struct Gradients {
    at::Tensor gate_TI, up_TI;  // up_TI is undefined if there is no up
  };
  // dup = dp act(gate),  dgate = dp up act'(gate). Must be the last call; overwrites `dp_TI`.
  Gradients Backward(at::Tensor dp_TI);

 private:
  at::Tensor gate_, up_;
  const Activation activation_;
  const bool fused_;
  at::Tensor activated_;
};

at::Tensor ClampedProduct(const at::Tensor& gate_TI, const at::Tensor& up_TI,
                          const ClampedGate& clamped);
// dup = dp g s,  dgate = dp (u + 1) s (1 + slope g (1 - s)),  s = sigmoid(slope g); 0 where the
// input was clamped.
GatedProductAgain::Gradients ClampedProductBackward(const at::Tensor& dp_TI,
                                                    const at::Tensor& gate_TI,
                                                    const at::Tensor& up_TI,
                                                    const ClampedGate& clamped);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_
