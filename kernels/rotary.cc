#include "kernels/rotary.h"

#include <tuple>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "rotary(Tensor q, Tensor k, Tensor cos, Tensor sin, bool interleaved, bool back) "
      "-> (Tensor q_turned, Tensor k_turned)");
}

Turned Rotate(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& cos_T1F,
              const at::Tensor& sin_T1F, bool interleaved, bool back) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::rotary", "")
                             .typed<std::tuple<at::Tensor, at::Tensor>(
                                 const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                 const at::Tensor&, bool, bool)>();
  auto [q, k] = op.call(q_THD, k_TKD, cos_T1F, sin_T1F, interleaved, back);
  return {std::move(q), std::move(k)};
}

}  // namespace moonring::kernels
