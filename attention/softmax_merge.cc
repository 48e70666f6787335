#include "attention/softmax_merge.h"

#include <limits>

#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

namespace moonring::attention {
namespace {

// The greatest exponent to subtract: -inf - -inf would be NaN.
at::Tensor Finite(const at::Tensor& max_TH) {
  const double lowest = max_TH.scalar_type() == at::kDouble ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
  return max_TH.clamp_min(lowest);
}

}  // namespace

SoftmaxState SoftmaxState::Empty(int64_t tokens, int64_t heads, int64_t head_dim, const at::TensorOptions& options) {
  return {at::full({tokens, heads}, -std::numeric_limits<double>::infinity(), options), at::zeros({tokens, heads}, options),
          at::zeros({tokens, heads, head_dim}, options)};
}

SoftmaxState SoftmaxState::Slice(const RowRange& rows, int64_t first_head, int64_t heads) const {
  const auto slice = [&](const at::Tensor& tensor) { return tensor.narrow(0, rows.begin, rows.rows()).narrow(1, first_head, heads); };
  return {slice(max_TH), slice(sum_TH), slice(weighted_THD)};
}

void Merge(const PartialAttention& part, SoftmaxState& state) {
  TORCH_INTERNAL_ASSERT(part.lse_MH.sizes() == state.max_TH.sizes() && part.out_MHD.sizes() == state.weighted_THD.sizes());
  const at::Tensor max = at::maximum(state.max_TH, part.lse_MH);
  const at::Tensor base = Finite(max);
  const at::Tensor keep = state.max_TH.sub(base).exp_();
  const at::Tensor add = part.lse_MH.sub(base).exp_();
  state.weighted_THD.mul_(keep.unsqueeze(2)).addcmul_(part.out_MHD, add.unsqueeze(2));
  state.sum_TH.mul_(keep).add_(add);
  state.max_TH.copy_(max);
}

PartialAttention Finish(SoftmaxState state) {
  const at::Tensor divisor = state.sum_TH.masked_fill(state.sum_TH.eq(0), 1.0);
  return {state.weighted_THD.div_(divisor.unsqueeze(2)), state.max_TH.add_(divisor.log())};
}

}  // namespace moonring::attention
