#include "kernels/squared_norms.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def("squared_norms(Tensor[] tensors) -> Tensor");
}

at::Tensor SquaredNorms(const std::vector<at::Tensor>& tensors) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow(kSquaredNorms, "")
                             .typed<at::Tensor(at::TensorList)>();
  return op.call(tensors);
}

}  // namespace moonring::kernels
