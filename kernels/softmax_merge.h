#ifndef MOONRING_KERNELS_SOFTMAX_MERGE_H_
#define MOONRING_KERNELS_SOFTMAX_MERGE_H_

// Merges attention results over sections of the keys into a running softmax, in place and in one
// pass over A (operators moonring::softmax_merge and moonring::softmax_finish);
// attention/kernels/softmax_merge.h describes its use and the special cases.
//
// out and lse are the output and the log-sum-exp of attention over some keys. The state of a row
// and head is m, the maximum so far, l, the sum of e^(s - m) over the scores s, and A, the same sum
// weighted by the values.
//
//   merge    m' = max(m, lse);  A <- A e^(m - m') + out e^(lse - m');
//            l <- l e^(m - m') + e^(lse - m')
//   finish   A <- A / l;  m <- m + log l        (an l of 0 divides as 1)
//
// M rows are merged into a state of T rows; H heads of D channels.
//
// out [M, H, D], lse [M, H]; m, l [T, H]; A [T, H, D]. Row r of out is merged into row rows[r] of
// the state (int64 [M], no row twice), or into row r if `rows` is undefined and T is M. Rows and
// heads may be strided. All tensors are fp32 or all fp64; with fp32, out may be bf16 or fp16. Bytes
// per element of A in fp32: 8 read and 4 written (with a 16-bit out 6 and 4).

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kSoftmaxMerge[] = "moonring::softmax_merge";

struct SoftmaxSums {
  at::Tensor max_TH, sum_TH, weighted_THD;
};

void SoftmaxMerge(const at::Tensor& out_MHD, const at::Tensor& lse_MH, const at::Tensor& rows_M,
                  const SoftmaxSums& sums);

void SoftmaxFinish(const SoftmaxSums& sums);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_SOFTMAX_MERGE_H_
