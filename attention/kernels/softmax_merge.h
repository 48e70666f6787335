#ifndef MOONRING_ATTENTION_KERNELS_SOFTMAX_MERGE_H_
#define MOONRING_ATTENTION_KERNELS_SOFTMAX_MERGE_H_

// Merges partial results of attention over disjoint sets of keys, exact up to rounding, as a
// running (online) softmax. A part is such a partial result (out_i, lse_i):
//
//   state   m = max of the parts' lse;  l = sum e^(lse_i - m);  A = sum e^(lse_i - m) out_i
//   merge   m' = max(m, lse);  A = A e^(m - m') + out e^(lse - m');
//           l = l e^(m - m') + e^(lse - m')
//   finish  out = A / l;  lse = m + log l
//
// The empty part is out = 0, lse = -inf; merging it changes nothing. To avoid NaN, exponents are
// relative to max(m', lowest finite number), and where l = 0 the divisor is 1. Exponents are never
// above 0, so nothing overflows. Error over 64 parts in fp32: 2e-7 in out, 2e-6 in lse (absolute,
// for lse near 10); the other common formula, which merges two parts by a sigmoid of the difference
// of their lse, has twice and four times these errors.
//
// Shapes, for T rows and H heads of D channels: m, l, lse [T, H]; A, out [T, H, D]; fp32 or fp64 (a
// part's out may be in 16 bits where the rest is fp32). Merging is in place: on the CPU in one pass
// over A, on a GPU by a kernel (kernels/softmax_merge.h). Where the kernel is not available, a
// merge allocates one temporary of the size of A's rows.

#include <ATen/core/Tensor.h>

#include "attention/kernels/block_attention.h"

namespace moonring::attention {

struct SoftmaxState {
  at::Tensor max_TH;
  at::Tensor sum_TH;
  at::Tensor weighted_THD;

  // The initial state, before any part was merged.
  static SoftmaxState Empty(int64_t tokens, int64_t heads, int64_t head_dim,
                            const at::TensorOptions& options);

  // A view of some rows and heads: merging into the view merges into this state.
  SoftmaxState Slice(const RowRange& rows, int64_t first_head, int64_t heads) const;
};

void Merge(const PartialAttention& part, SoftmaxState& state);
// Merges row r of the part into row rows_M[r] of the state. rows_M is int64 on the state's device,
// without duplicates.
void Merge(const PartialAttention& part, const at::Tensor& rows_M, const SoftmaxState& state);

// The result over all parts; reuses the state's memory. Rows without any part get out 0, lse -inf.
PartialAttention Finish(SoftmaxState state);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_SOFTMAX_MERGE_H_
