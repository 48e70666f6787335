#include <optional>

#include "kernels/cross_entropy_rows_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

void CheckRow(const char* what, const at::Tensor& numbers, int64_t rows, at::ScalarType dtype) {
  TORCH_CHECK(numbers.dim() == 1 && numbers.size(0) == rows && numbers.is_contiguous() &&
                  numbers.scalar_type() == dtype,
              "cross_entropy_rows: ", what, " ", numbers.sizes(), " of ", numbers.scalar_type(),
              ", expected ", dtype, " [", rows, "]");
}

constexpr int64_t kWord = 16;  // bytes that the kernels read at once

ScoreRows ScoreRowsOf(const at::Tensor& scores, double softcap, const at::Tensor& targets) {
  TORCH_CHECK(scores.dim() == 2 && (scores.size(1) <= 1 || scores.stride(1) == 1),
              "cross_entropy_rows: scores ", scores.sizes(), " with strides ", scores.strides(),
              ", expected a matrix with contiguous rows");
  const int64_t number = scores.element_size(), stride = scores.stride(0),
                words = (scores.size(1) * number + kWord - 1) / kWord * kWord,
                end = (scores.storage_offset() + scores.size(0) * stride) * number;
  CheckRow("targets", targets, scores.size(0), at::kLong);
  return {.type = TypeOf(scores),
          .scores_RV = const_cast<void*>(scores.const_data_ptr()),
          .rows = scores.size(0),
          .vocabulary = scores.size(1),
          .stride = stride,
          .may_write_gaps =
              stride * number >= words && end <= static_cast<int64_t>(scores.storage().nbytes()),
          .softcap = softcap,
          .targets_R = targets.const_data_ptr<int64_t>()};
}

void CrossEntropyRows(const at::Tensor& scores, double softcap, const at::Tensor& targets,
                      at::Tensor picked, at::Tensor logsumexp, std::optional<at::Tensor> mean,
                      std::optional<at::Tensor> greedy) {
  const ScoreRows rows = ScoreRowsOf(scores, softcap, targets);
  const at::ScalarType wide = at::toOpMathType(scores.scalar_type());
  CheckRow("picked", picked, rows.rows, wide);
  CheckRow("logsumexp", logsumexp, rows.rows, wide);
  RowResults results{DataOf(picked), DataOf(logsumexp), nullptr, nullptr};
  if (mean.has_value()) {
    CheckRow("mean", *mean, rows.rows, wide);
    results.mean_R = DataOf(*mean);
  }
  if (greedy.has_value()) {
    CheckRow("greedy", *greedy, rows.rows, at::kLong);
    results.greedy_R = greedy->mutable_data_ptr<int64_t>();
  }
  LaunchCrossEntropyRows(rows, results, StreamOf(scores));
}

void CrossEntropyRowsBackward(at::Tensor scores, double softcap, double smoothing,
                              const at::Tensor& targets, const at::Tensor& logsumexp) {
  const ScoreRows rows = ScoreRowsOf(scores, softcap, targets);
  CheckRow("logsumexp", logsumexp, rows.rows, at::toOpMathType(scores.scalar_type()));
  LaunchCrossEntropyRowsBackward(rows, smoothing, logsumexp.const_data_ptr(), StreamOf(scores));
}

KERNEL_OPERATORS(library) {
  library.impl("cross_entropy_rows", TORCH_FN(CrossEntropyRows));
  library.impl("cross_entropy_rows_backward", TORCH_FN(CrossEntropyRowsBackward));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
