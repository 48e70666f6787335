#include "kernels/philox.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace moonring::kernels {
namespace {

void Drop(const at::Tensor& x, uint64_t key, const at::Tensor& identity, double rate,
          at::Tensor& out) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::dropout_", "")
          .typed<void(const at::Tensor&, int64_t, const at::Tensor&, double, at::Tensor&)>();
  op.call(x, static_cast<int64_t>(key), identity, rate, out);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def("counter_uniform(int key, Tensor identity, int width) -> Tensor");
  library.def("dropout_(Tensor x, int key, Tensor identity, float rate, Tensor(a!) out) -> ()");
}

at::Tensor UniformByKernel(uint64_t key, const at::Tensor& identity_T, int64_t width) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::counter_uniform", "")
                             .typed<at::Tensor(int64_t, const at::Tensor&, int64_t)>();
  return op.call(static_cast<int64_t>(key), identity_T, width);
}

at::Tensor Dropout(const at::Tensor& x_TW, uint64_t key, const at::Tensor& identity_T,
                   double rate) {
  at::Tensor out = at::empty(x_TW.sizes(), x_TW.options());
  Drop(x_TW, key, identity_T, rate, out);
  return out;
}

void DropoutInPlace(at::Tensor x_TW, uint64_t key, const at::Tensor& identity_T, double rate) {
  Drop(x_TW, key, identity_T, rate, x_TW);
}

}  // namespace moonring::kernels
