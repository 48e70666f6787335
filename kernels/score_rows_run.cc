#include <algorithm>

#include "kernels/run.h"
#include "kernels/score_rows_launch.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int64_t kTogether = 8;  // numbers that the kernels read and write in one access

// The distance between rows, in numbers, from the first dim larger than 1: strides of dims of size
// 1 are meaningless.
int64_t RowStride(const at::Tensor& rows) {
  for (int64_t d = 2; d >= 0; --d)
    if (rows.size(d) > 1) return rows.stride(d);
  return (rows.size(3) + kTogether - 1) / kTogether * kTogether;
}

// Checks that rows have a constant stride and are each contiguous.
void CheckRows(const char* what, const at::Tensor& rows, at::IntArrayRef sizes) {
  bool are_rows = rows.dim() == 4 && rows.sizes() == sizes;
  if (are_rows && rows.numel() > 0) {
    int64_t stride = RowStride(rows);
    are_rows = (rows.size(3) == 1 || rows.stride(3) == 1) && stride >= rows.size(3);
    for (int64_t d = 2; d >= 0; --d) {
      are_rows = are_rows && (rows.size(d) == 1 || rows.stride(d) == stride);
      stride *= rows.size(d);
    }
  }
  TORCH_CHECK(are_rows, "score_rows: ", what, " ", rows.sizes(), " with strides ", rows.strides(),
              ", expected ", sizes, " with a constant distance between rows");
}

void CheckOneARow(const char* what, const at::Tensor& numbers, const at::Tensor& x) {
  TORCH_CHECK(numbers.sizes() == x.sizes().slice(0, 3) && numbers.is_contiguous() &&
                  numbers.scalar_type() == at::kFloat,
              "score_rows: ", what, " ", numbers.sizes(), " of ", numbers.scalar_type(),
              ", expected fp32 ", x.sizes().slice(0, 3), " without gaps");
}

void CheckWide(const char* what, const at::Tensor& rows, at::IntArrayRef sizes) {
  CheckRows(what, rows, sizes);
  TORCH_CHECK(rows.scalar_type() == at::kFloat, "score_rows: ", what, " of ", rows.scalar_type(),
              ", expected fp32");
}

void CheckNarrow(const char* what, const at::Tensor& rows, const at::Tensor& over) {
  CheckRows(what, rows, over.sizes());
  TORCH_CHECK(rows.scalar_type() == at::kBFloat16 || rows.scalar_type() == at::kHalf,
              "score_rows: ", what, " of ", rows.scalar_type(), ", expected bf16 or fp16");
  const bool is_one = rows.numel() == rows.size(3);
  TORCH_CHECK(!rows.is_alias_of(over) || (rows.const_data_ptr() == over.const_data_ptr() &&
                                          (is_one || RowStride(rows) == 2 * RowStride(over))),
              "score_rows: ", what,
              " shares memory with its input, but does not begin at the same address");
}

// Whether the padding after each row, up to whole vectors, is within the row's stride and the
// tensor's memory.
bool HasRoom(const at::Tensor& rows) {
  const int64_t words = (rows.size(3) + kTogether - 1) / kTogether * kTogether,
                count = rows.numel() / std::max<int64_t>(1, rows.size(3)),
                end = rows.storage_offset() + (count - 1) * RowStride(rows) + words;
  return RowStride(rows) >= words &&
         end * rows.element_size() <= static_cast<int64_t>(rows.storage().nbytes());
}

ScoreRowsCall CallOf(const at::Tensor& x, const at::Tensor& seen, double scale, double softcap,
                     const at::Tensor& p) {
  CheckWide("x", x, x.sizes());
  CheckNarrow("p", p, x);
  TORCH_CHECK(seen.sizes() == at::IntArrayRef({x.size(0), 4}) && seen.is_contiguous() &&
                  seen.scalar_type() == at::kLong,
              "score_rows: seen ", seen.sizes(), " of ", seen.scalar_type(), ", expected int64 [",
              x.size(0), ", 4]");
  return {.tiles = x.size(0),
          .heads = x.size(1),
          .queries = x.size(2),
          .keys = x.size(3),
          .seen_B4 = seen.const_data_ptr<int64_t>(),
          .scale = scale,
          .softcap = softcap,
          .x = x.const_data_ptr<float>(),
          .x_stride = RowStride(x),
          .type = TypeOf(p),
          .p = p.mutable_data_ptr(),
          .p_stride = RowStride(p),
          .has_room = x.numel() > 0 && HasRoom(x) && HasRoom(p)};
}

void ScoreRowsForward(const at::Tensor& x, const at::Tensor& seen, double scale, double softcap,
                      at::Tensor p, at::Tensor sum, at::Tensor lse) {
  const ScoreRowsCall call = CallOf(x, seen, scale, softcap, p);
  CheckOneARow("sum", sum, x);
  CheckOneARow("lse", lse, x);
  LaunchScoreRows(call, {sum.mutable_data_ptr<float>(), lse.mutable_data_ptr<float>()},
                  StreamOf(x));
}

void ScoreRowsBackward(const at::Tensor& x, const at::Tensor& y, const at::Tensor& lse,
                       const at::Tensor& delta, const at::Tensor& seen, double scale,
                       double softcap, at::Tensor p, at::Tensor ds) {
  ScoreRowsCall call = CallOf(x, seen, scale, softcap, p);
  CheckWide("y", y, x.sizes());
  CheckNarrow("ds", ds, y);
  TORCH_CHECK(ds.scalar_type() == p.scalar_type() && !ds.is_alias_of(p) && !x.is_alias_of(y),
              "score_rows: p of ", p.scalar_type(), " and ds of ", ds.scalar_type(),
              ", expected one dtype, and separate memory");
  CheckOneARow("lse", lse, x);
  CheckOneARow("delta", delta, x);
  call.has_room = call.has_room && HasRoom(y) && HasRoom(ds);
  LaunchScoreRowsBackward(call,
                          {.y = y.const_data_ptr<float>(),
                           .y_stride = RowStride(y),
                           .lse = lse.const_data_ptr<float>(),
                           .delta = delta.const_data_ptr<float>(),
                           .ds = ds.mutable_data_ptr(),
                           .ds_stride = RowStride(ds)},
                          StreamOf(x));
}

KERNEL_OPERATORS(library) {
  library.impl("score_rows", TORCH_FN(ScoreRowsForward));
  library.impl("score_rows_backward", TORCH_FN(ScoreRowsBackward));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
