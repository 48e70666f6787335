#include "kernels/softmax_merge.h"

#include <optional>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "softmax_merge(Tensor out, Tensor lse, Tensor? rows, Tensor(a!) max, Tensor(b!) sum, "
      "Tensor(c!) weighted) -> ()");
  library.def("softmax_finish(Tensor(a!) max, Tensor sum, Tensor(b!) weighted) -> ()");
}

void SoftmaxMerge(const at::Tensor& out_MHD, const at::Tensor& lse_MH, const at::Tensor& rows_M,
                  const SoftmaxSums& sums) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(kSoftmaxMerge, "")
          .typed<void(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                      at::Tensor, at::Tensor, at::Tensor)>();
  op.call(out_MHD, lse_MH, rows_M.defined() ? std::optional(rows_M) : std::nullopt, sums.max_TH,
          sums.sum_TH, sums.weighted_THD);
}

void SoftmaxFinish(const SoftmaxSums& sums) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::softmax_finish", "")
                             .typed<void(at::Tensor, const at::Tensor&, at::Tensor)>();
  op.call(sums.max_TH, sums.sum_TH, sums.weighted_THD);
}

}  // namespace moonring::kernels
