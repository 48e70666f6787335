#include <optional>

#include "kernels/run.h"
#include "kernels/softmax_merge_launch.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

RowsAndHeads<void> WrittenRows(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr(), tensor.stride(0), tensor.stride(1)};
}
RowsAndHeads<const void> ReadRows(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.stride(0), tensor.stride(1)};
}

void CheckDense(const char* what, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.dim() == 3 && (tensor.size(2) <= 1 || tensor.stride(2) == 1),
              "softmax_merge: ", what, " ", tensor.sizes(), " with strides ", tensor.strides(),
              ", expected [rows, heads, features], the last dense");
}

SoftmaxSums SumsOf(const at::Tensor& max, const at::Tensor& sum, const at::Tensor& weighted,
                   int64_t rows) {
  CheckDense("weighted", weighted);
  const at::ScalarType dtype = weighted.scalar_type();
  TORCH_CHECK((dtype == at::kFloat || dtype == at::kDouble) && max.scalar_type() == dtype &&
                  sum.scalar_type() == dtype,
              "softmax_merge: sums of ", max.scalar_type(), ", ", sum.scalar_type(), " and ", dtype,
              ", expected fp32 or fp64, all the same");
  TORCH_CHECK(max.sizes() == weighted.sizes().slice(0, 2) && sum.sizes() == max.sizes(),
              "softmax_merge: max ", max.sizes(), ", sum ", sum.sizes(), ", weighted ",
              weighted.sizes());
  return {.type = TypeOf(dtype),
          .max = WrittenRows(max),
          .sum = WrittenRows(sum),
          .weighted = WrittenRows(weighted),
          .rows = rows,
          .heads = weighted.size(1),
          .head_dim = weighted.size(2)};
}

void SoftmaxMerge(const at::Tensor& out, const at::Tensor& lse,
                  const std::optional<at::Tensor>& given_rows, at::Tensor max, at::Tensor sum,
                  at::Tensor weighted) {
  CheckDense("out", out);
  const at::ScalarType dtype = weighted.scalar_type();
  const bool is_narrow = out.scalar_type() == at::kBFloat16 || out.scalar_type() == at::kHalf;
  TORCH_CHECK(lse.scalar_type() == dtype &&
                  (out.scalar_type() == dtype || (is_narrow && dtype == at::kFloat)),
              "softmax_merge: out of ", out.scalar_type(), " and lse of ", lse.scalar_type(),
              " into sums of ", dtype);
  TORCH_CHECK(
      lse.sizes() == out.sizes().slice(0, 2) && out.sizes().slice(1) == weighted.sizes().slice(1),
      "softmax_merge: out ", out.sizes(), " and lse ", lse.sizes(), " into ", weighted.sizes());
  SoftmaxPart part{.type = TypeOf(out), .out = ReadRows(out), .lse = ReadRows(lse)};
  at::Tensor rows;  // kept alive until the launch
  if (given_rows.has_value()) {
    rows = given_rows->contiguous();
    TORCH_CHECK(rows.dim() == 1 && rows.size(0) == out.size(0) && rows.scalar_type() == at::kLong,
                "softmax_merge: rows ", rows.sizes(), " of ", rows.scalar_type(),
                ", expected int64 [", out.size(0), "]");
    part.rows = rows.const_data_ptr<int64_t>();
  } else {
    TORCH_CHECK(out.size(0) == weighted.size(0), "softmax_merge: ", out.size(0), " rows into ",
                weighted.size(0));
  }
  LaunchSoftmaxMerge(part, SumsOf(max, sum, weighted, out.size(0)), StreamOf(weighted));
}

void SoftmaxFinish(at::Tensor max, const at::Tensor& sum, at::Tensor weighted) {
  LaunchSoftmaxFinish(SumsOf(max, sum, weighted, weighted.size(0)), StreamOf(weighted));
}

KERNEL_OPERATORS(library) {
  library.impl("softmax_merge", TORCH_FN(SoftmaxMerge));
  library.impl("softmax_finish", TORCH_FN(SoftmaxFinish));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
