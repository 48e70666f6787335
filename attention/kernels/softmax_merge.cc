#include "attention/kernels/softmax_merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "kernels/choice.h"
#include "kernels/softmax_merge.h"

namespace moonring::attention {
namespace {

// The maximum, clamped to a finite number, since the difference of two -inf would be NaN.
at::Tensor Finite(const at::Tensor& max_TH) {
  const double lowest = max_TH.scalar_type() == at::kDouble ? std::numeric_limits<double>::lowest()
                                                            : std::numeric_limits<float>::lowest();
  return max_TH.clamp_min(lowest);
}

bool IsFused(const at::Tensor& weighted_THD) {
  return kernels::UseKernel(weighted_THD, kernels::kSoftmaxMerge);
}

kernels::SoftmaxSums SumsOf(const SoftmaxState& state) {
  return {state.max_TH, state.sum_TH, state.weighted_THD};
}

// Merges in one pass over the rows, since separate LibTorch operators would be slow for small
// tiles.
template <typename T>
void MergeRows(const PartialAttention& part, const SoftmaxState& state) {
  const at::Tensor &lse = part.lse_MH, &out = part.out_MHD, &max = state.max_TH,
                   &sum = state.sum_TH, &weighted = state.weighted_THD;
  const int64_t rows = out.size(0), heads = out.size(1), head_dim = out.size(2);
  const T *lse_at = lse.const_data_ptr<T>(), *out_at = out.const_data_ptr<T>();
  T *max_at = max.mutable_data_ptr<T>(), *sum_at = sum.mutable_data_ptr<T>(),
    *weighted_at = weighted.mutable_data_ptr<T>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      const T part_lse = lse_at[row * lse.stride(0) + head * lse.stride(1)];
      T& row_max = max_at[row * max.stride(0) + head * max.stride(1)];
      T& row_sum = sum_at[row * sum.stride(0) + head * sum.stride(1)];
      const T new_max = std::max(row_max, part_lse),
              base = std::max(new_max, std::numeric_limits<T>::lowest());
      const T keep = std::exp(row_max - base), add = std::exp(part_lse - base);
      const T* from = out_at + row * out.stride(0) + head * out.stride(1);
      T* to = weighted_at + row * weighted.stride(0) + head * weighted.stride(1);
      for (int64_t d = 0; d < head_dim; ++d) to[d] = to[d] * keep + from[d] * add;
      row_sum = row_sum * keep + add;
      row_max = new_max;
    }
  }
}

}  // namespace

SoftmaxState SoftmaxState::Empty(int64_t tokens, int64_t heads, int64_t head_dim,
                                 const at::TensorOptions& options) {
  return {at::full({tokens, heads}, -std::numeric_limits<double>::infinity(), options),
          at::zeros({tokens, heads}, options), at::zeros({tokens, heads, head_dim}, options)};
}

SoftmaxState SoftmaxState::Slice(const RowRange& rows, int64_t first_head, int64_t heads) const {
  const auto slice = [&](const at::Tensor& tensor) {
    return tensor.narrow(0, rows.begin, rows.rows()).narrow(1, first_head, heads);
  };
  return {slice(max_TH), slice(sum_TH), slice(weighted_THD)};
}

void Merge(const PartialAttention& part, SoftmaxState& state) {
  TORCH_INTERNAL_ASSERT(part.lse_MH.sizes() == state.max_TH.sizes() &&
                        part.out_MHD.sizes() == state.weighted_THD.sizes());
  if (part.out_MHD.is_cpu() && part.out_MHD.stride(2) == 1 && state.weighted_THD.stride(2) == 1) {
    const at::ScalarType type = state.weighted_THD.scalar_type();
    const PartialAttention same{part.out_MHD.to(type), part.lse_MH};
    type == at::kDouble ? MergeRows<double>(same, state) : MergeRows<float>(same, state);
    return;
  }
  if (IsFused(state.weighted_THD))
    return kernels::SoftmaxMerge(part.out_MHD, part.lse_MH, /*rows_M=*/{}, SumsOf(state));
  const at::Tensor max = at::maximum(state.max_TH, part.lse_MH);
  const at::Tensor base = Finite(max);
  const at::Tensor keep = state.max_TH.sub(base).exp_();
  const at::Tensor add = part.lse_MH.sub(base).exp_();
  state.weighted_THD.mul_(keep.unsqueeze(2))
      .addcmul_(part.out_MHD.to(state.weighted_THD.scalar_type()), add.unsqueeze(2));
  state.sum_TH.mul_(keep).add_(add);
  state.max_TH.copy_(max);
}

void Merge(const PartialAttention& part, const at::Tensor& rows_M, const SoftmaxState& state) {
  if (IsFused(state.weighted_THD))
    return kernels::SoftmaxMerge(part.out_MHD, part.lse_MH, rows_M, SumsOf(state));
  const auto rows = [&](const at::Tensor& all) { return all.index_select(0, rows_M); };
  SoftmaxState some{rows(state.max_TH), rows(state.sum_TH), rows(state.weighted_THD)};
  Merge(part, some);
  state.max_TH.index_copy_(0, rows_M, some.max_TH);
  state.sum_TH.index_copy_(0, rows_M, some.sum_TH);
  state.weighted_THD.index_copy_(0, rows_M, some.weighted_THD);
}

PartialAttention Finish(SoftmaxState state) {
  if (IsFused(state.weighted_THD)) {
    kernels::SoftmaxFinish(SumsOf(state));
    return {std::move(state.weighted_THD), std::move(state.max_TH)};
  }
  const at::Tensor divisor = state.sum_TH.masked_fill(state.sum_TH.eq(0), 1.0);
  return {state.weighted_THD.div_(divisor.unsqueeze(2)), state.max_TH.add_(divisor.log())};
}

}  // namespace moonring::attention
