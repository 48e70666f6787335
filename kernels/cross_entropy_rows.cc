#include "kernels/cross_entropy_rows.h"

#include <optional>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/optional_tensor.h"

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "cross_entropy_rows(Tensor scores, float softcap, Tensor targets, Tensor(a!) picked, "
      "Tensor(b!) logsumexp, Tensor(c!)? mean, Tensor(d!)? greedy) -> ()");
  library.def(
      "cross_entropy_rows_backward(Tensor(a!) scores, float softcap, float smoothing, "
      "Tensor targets, Tensor logsumexp) -> ()");
}

void CrossEntropyRows(const at::Tensor& scores_RV, double softcap, const at::Tensor& targets_R,
                      const TargetRows& results) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(kCrossEntropyRows, "")
          .typed<void(const at::Tensor&, double, const at::Tensor&, at::Tensor, at::Tensor,
                      std::optional<at::Tensor>, std::optional<at::Tensor>)>();
  op.call(scores_RV, softcap, targets_R, results.picked_R, results.logsumexp_R,
          IfDefined(results.mean_R), IfDefined(results.greedy_R));
}

void CrossEntropyRowsBackward(at::Tensor scores_RV, double softcap, double smoothing,
                              const at::Tensor& targets_R, const at::Tensor& logsumexp_R) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::cross_entropy_rows_backward", "")
          .typed<void(at::Tensor, double, double, const at::Tensor&, const at::Tensor&)>();
  op.call(std::move(scores_RV), softcap, smoothing, targets_R, logsumexp_R);
}

}  // namespace moonring::kernels
