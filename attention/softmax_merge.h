#ifndef MOONRING_ATTENTION_SOFTMAX_MERGE_H_
#define MOONRING_ATTENTION_SOFTMAX_MERGE_H_

// Joins attention over disjoint sets of keys, exactly up to rounding, as a running softmax:
//
//   state   m = max of the parts' lse;  l = sum e^(lse_i - m);  A = sum e^(lse_i - m) out_i
//   merge   m' = max(m, lse);  A = A e^(m - m') + out e^(lse - m');  l = l e^(m - m') + e^(lse -
//           m')
//   finish  out = A / l;  lse = m + log l
//
// The empty part is (0, -inf), and it is the identity on either side: exponents are taken against
// max(m', lowest finite) and an l of 0 divides as 1, so no NaN arises. Exponents are never above 0:
// nothing overflows.
// Error over 64 parts in fp32: 2e-7 in out, 2e-6 in lse (absolute, for lse near 10), where the
// sigmoid form has twice and four times that.
//
// Shapes: m, l, lse [T, H]; A, out [T, H, D]; fp32 or fp64 (a part's out may be in 16 bits
// beside fp32). Works in place: on the CPU in one pass over A, as on a GPU by its kernel
// (kernels); without that a merge makes one temporary of A's rows.

#include <ATen/core/Tensor.h>

#include "attention/block_attention.h"

namespace moonring::attention {

struct SoftmaxState {
  at::Tensor max_TH;
  at::Tensor sum_TH;
  at::Tensor weighted_THD;

  // Nothing merged yet.
  static SoftmaxState Empty(int64_t tokens, int64_t heads, int64_t head_dim,
                            const at::TensorOptions& options);

  // A view of some rows and heads: merging into it merges into this.
  SoftmaxState Slice(const RowRange& rows, int64_t first_head, int64_t heads) const;
};

void Merge(const PartialAttention& part, SoftmaxState& state);
// Row r of the part into row rows_M[r] of the state (int64, where the state is; none twice).
void Merge(const PartialAttention& part, const at::Tensor& rows_M, const SoftmaxState& state);

// The result over all parts; takes the state's memory. Rows without any part give out 0, lse -inf.
PartialAttention Finish(SoftmaxState state);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_SOFTMAX_MERGE_H_
