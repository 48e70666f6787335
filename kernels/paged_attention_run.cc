#include <ATen/ops/empty.h>

#include "kernels/paged_attention_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

void CheckPagedKeys(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values) {
  const at::ScalarType dtype = q.scalar_type();
  TORCH_CHECK((dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf) &&
                  keys.scalar_type() == dtype && values.scalar_type() == dtype,
              "paged_attention: q of ", dtype, ", keys of ", keys.scalar_type(), ", values of ",
              values.scalar_type(), ", expected fp32, bf16 or fp16, all the same");
  TORCH_CHECK(q.dim() == 3 && keys.dim() == 4 && values.dim() == 4 && keys.size(0) > 0 &&
                  keys.size(1) > 0 && q.size(1) % keys.size(1) == 0 && q.size(2) == keys.size(2) &&
                  keys.size(3) == kPagedTokens && values.size(0) == keys.size(0) &&
                  values.size(1) == keys.size(1) && values.size(2) == kPagedTokens &&
                  keys.size(2) > 0 && keys.size(2) <= kPagedWidth && values.size(3) > 0 &&
                  values.size(3) <= kPagedWidth && keys.is_contiguous() && values.is_contiguous(),
              "paged_attention: q ", q.sizes(), ", keys ", keys.sizes(), " and values ",
              values.sizes(), ", expected [T, H, D], [N, Hk, D, ", kPagedTokens, "] and [N, Hk, ",
              kPagedTokens, ", Dv] without gaps, D and Dv at most ", kPagedWidth);
}

void CheckPagedResult(const char* what, const at::Tensor& result, at::IntArrayRef sizes) {
  TORCH_CHECK(
      result.scalar_type() == at::kFloat && result.sizes() == sizes && result.is_contiguous(),
      "paged_attention: ", what, " ", result.sizes(), " of ", result.scalar_type(),
      " with strides ", result.strides(), ", expected fp32 ", sizes, " without gaps");
}

void PagedAttention(const at::Tensor& given_q, const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& words, at::IntArrayRef counts, double scale, double softcap,
                    at::Tensor out, at::Tensor lse) {
  CheckPagedKeys(given_q, keys, values);
  const at::Tensor q = WithWholeRows(given_q);
  const int64_t heads = q.size(1), kv_heads = keys.size(1), queries = heads / kv_heads,
                value_dim = values.size(3);
  CheckPagedResult("out", out, {q.size(0), heads, value_dim});
  CheckPagedResult("lse", lse, {q.size(0), heads});
  TORCH_CHECK(counts.size() == 5, "paged_attention: ", counts.size(), " counts, expected 5");
  const int64_t tasks = counts[0], blocks = counts[1], parts = counts[2], rows = counts[3],
                most_rows = counts[4];
  TORCH_CHECK(most_rows <= 1 || most_rows * queries <= kPagedQueries, "paged_attention: tasks of ",
              most_rows, " rows with ", queries, " queries a kv head, expected ", kPagedQueries,
              " queries at most");
  const int64_t wanted = 2 * (tasks + 1) + 3 * blocks + 2 * parts + 2 * (rows + 1);
  TORCH_CHECK(words.scalar_type() == at::kInt && words.dim() == 1 && words.is_contiguous() &&
                  words.size(0) == wanted,
              "paged_attention: a table ", words.sizes(), " of ", words.scalar_type(),
              ", expected int32 [", wanted, "]");
  const int32_t* const of_tasks = words.const_data_ptr<int32_t>();
  const int32_t* const of_blocks = of_tasks + 2 * (tasks + 1);
  const int32_t* const of_parts = of_blocks + 3 * blocks;
  const int32_t* const of_rows = of_parts + parts;
  const at::Tensor weighted = at::empty({parts, heads, value_dim}, out.options()),
                   sums = at::empty({parts, heads, 2}, out.options());
  LaunchPagedAttention({.type = TypeOf(q),
                        .q = q.const_data_ptr(),
                        .q_row_stride = q.stride(0),
                        .q_head_stride = q.stride(1),
                        .keys = keys.const_data_ptr(),
                        .values = values.const_data_ptr(),
                        .kv_heads = kv_heads,
                        .queries = queries,
                        .key_dim = q.size(2),
                        .value_dim = value_dim,
                        .scale = static_cast<float>(scale),
                        .softcap = static_cast<float>(softcap),
                        .tasks = tasks,
                        .rows = rows,
                        .most_rows = most_rows,
                        .of_tasks = of_tasks,
                        .of_blocks = of_blocks,
                        .of_parts = of_parts,
                        .of_rows = of_rows,
                        .of_links = of_rows + 2 * (rows + 1),
                        .weighted = FloatsOf(weighted),
                        .sums = FloatsOf(sums),
                        .out = FloatsOf(out),
                        .lse = FloatsOf(lse)},
                       StreamOf(out));
}

KERNEL_OPERATORS(library) { library.impl("paged_attention", TORCH_FN(PagedAttention)); }

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
