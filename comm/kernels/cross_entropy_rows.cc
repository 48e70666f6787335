#include "comm/kernels/cross_entropy_rows.h"

#include <optional>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {
namespace {

using Tensor = at::Tensor;
using OptionalTensor = std::optional<Tensor>;

OptionalTensor IfDefined(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "cross_entropy_rows(Tensor scores, float softcap, Tensor targets, Tensor(a!) picked, "
      "Tensor(b!) logsumexp, Tensor(c!)? mean, Tensor(d!)? greedy) -> ()");
  library.def(
      "cross_entropy_rows_backward(Tensor(a!) scores, float softcap, float smoothing, "
      "Tensor targets, Tensor logsumexp) -> ()");
}

void CrossEntropyRows(const Tensor& scores_RV, double softcap, const Tensor& targets_R,
                      const TargetRows& results) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow(kCrossEntropyRows, "")
                             .typed<void(const Tensor&, double, const Tensor&, Tensor, Tensor,
                                         OptionalTensor, OptionalTensor)>();
  op.call(scores_RV, softcap, targets_R, results.picked_R, results.logsumexp_R,
          IfDefined(results.mean_R), IfDefined(results.greedy_R));
}

void CrossEntropyRowsBackward(Tensor scores_RV, double softcap, double smoothing,
                              const Tensor& targets_R, const Tensor& logsumexp_R) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::cross_entropy_rows_backward", "")
                             .typed<void(Tensor, double, double, const Tensor&, const Tensor&)>();
  op.call(std::move(scores_RV), softcap, smoothing, targets_R, logsumexp_R);
}

}  // namespace moonring::kernels
