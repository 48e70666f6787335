#include "kernels/gated.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def("gated(Tensor gate, Tensor up, int activation) -> Tensor");
  library.def(
      "gated_backward_(Tensor(a!) dp, Tensor gate, Tensor up, int activation) -> Tensor dup");
}

at::Tensor Gated(const at::Tensor& gate_TI, const at::Tensor& up_TI, Gate activation) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::gated", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, int64_t)>();
  return op.call(gate_TI, up_TI, static_cast<int64_t>(activation));
}

at::Tensor GatedBackward(at::Tensor dp_TI, const at::Tensor& gate_TI, const at::Tensor& up_TI,
                         Gate activation) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::gated_backward_", "")
          .typed<at::Tensor(at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t)>();
  return op.call(dp_TI, gate_TI, up_TI, static_cast<int64_t>(activation));
}

}  // namespace moonring::kernels
