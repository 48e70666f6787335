#ifndef MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_
#define MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_

// The arithmetic of a gated MLP's middle, p = act(gate) up, without a graph: by the fused kernels
// of kernels/gated.h where a GPU has them (kernels/choice.h), else by LibTorch's
// operators. layers.h has the activations. Where `up` is undefined the MLP has no gate: p =
// act(gate) of all that it makes.
//
// gpt-oss has another product, with bounds; its arithmetic is in the wide dtype, by LibTorch's
// operators alone:
//
//   p = (u + 1) g sigmoid(slope g),   g = min(gate, limit),   u = max(-limit, min(up, limit))

#include <ATen/core/Tensor.h>

#include "model/config/activation.h"
#include "model/config/config.h"

namespace moonring::model {

at::Tensor Activate(const at::Tensor& x, Activation activation);
// d activation / dx times `dy`.
at::Tensor ActivateBackward(const at::Tensor& dy, const at::Tensor& x, Activation activation);

at::Tensor GatedProduct(const at::Tensor& gate_TI, const at::Tensor& up_TI, Activation activation);

// In a backward: the product again, as often as wanted, and then its gradients. Keeps act(gate)
// between the two where the kernels do not serve.
class GatedProductAgain {
 public:
  GatedProductAgain(at::Tensor gate_TI, at::Tensor up_TI, Activation activation);

  at::Tensor Product() const;

  struct Gradients {
    at::Tensor gate_TI, up_TI;  // the latter undefined where there is no up
  };
  // dup = dp act(gate),  dgate = dp up act'(gate). Last call; `dp_TI` is written over.
  Gradients Backward(at::Tensor dp_TI);

 private:
  at::Tensor gate_, up_;
  const Activation activation_;
  const bool fused_;
  at::Tensor activated_;
};

at::Tensor ClampedProduct(const at::Tensor& gate_TI, const at::Tensor& up_TI,
                          const ClampedGate& clamped);
// dup = dp g s,  dgate = dp (u + 1) s (1 + slope g (1 - s)),  s = sigmoid(slope g); 0 beyond a
// bound.
GatedProductAgain::Gradients ClampedProductBackward(const at::Tensor& dp_TI,
                                                    const at::Tensor& gate_TI,
                                                    const at::Tensor& up_TI,
                                                    const ClampedGate& clamped);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GATED_PRODUCT_H_
