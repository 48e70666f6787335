#include "kernels/delta_scan.h"

#include <optional>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/optional_tensor.h"

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "delta_scan(Tensor a, Tensor b, Tensor(w!)? written, Tensor? added, Tensor decay, "
      "Tensor(s!) state, Tensor(t!) states, Tensor round_begin, bool backward, bool tf32) -> ()");
}

bool DeltaScanTakes(at::ScalarType dtype, int64_t chunk, int64_t keys) {
  return dtype == at::kFloat && chunk == 64 && keys > 0 && keys <= 256;
}

void DeltaScan(const DeltaScanTensors& tensors, bool backward, bool tf32) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(kDeltaScan, "")
          .typed<void(const at::Tensor&, const at::Tensor&, std::optional<at::Tensor>,
                      const std::optional<at::Tensor>&, const at::Tensor&, at::Tensor, at::Tensor,
                      const at::Tensor&, bool, bool)>();
  op.call(tensors.a_NHCK, tensors.b_NHCK, IfDefined(tensors.written_NHCV),
          IfDefined(tensors.added_NHVK), tensors.decay_NH1X, tensors.state_DHVK,
          tensors.states_NHVK, tensors.round_begin, backward, tf32);
}

}  // namespace moonring::kernels
