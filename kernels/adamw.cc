#include "kernels/adamw.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "adamw(Tensor(a!)[] weights, Tensor[] gradients, Tensor(b!)[] means, Tensor(c!)[] squares, "
      "Tensor[] steps, int[] keys, int[] places, float lr, float beta1, float beta2, float "
      "weight_decay, float epsilon) "
      "-> ()");
}

void AdamW(const AdamWTensors& tensors, const AdamWFactors& factors) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(kAdamW, "")
          .typed<void(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                      at::TensorList, at::IntArrayRef, at::IntArrayRef, double, double, double,
                      double, double)>();
  if (tensors.weights.empty()) return;  // no tensor, so no device
  op.call(tensors.weights, tensors.gradients, tensors.means, tensors.squares, tensors.steps,
          tensors.keys, tensors.places, factors.lr, factors.beta1, factors.beta2,
          factors.weight_decay, factors.epsilon);
}

}  // namespace moonring::kernels
