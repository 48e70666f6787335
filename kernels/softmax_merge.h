#ifndef MOONRING_KERNELS_SOFTMAX_MERGE_H_
#define MOONRING_KERNELS_SOFTMAX_MERGE_H_

// A running softmax over parts of the keys, in place and in one pass over A (operators
// moonring::softmax_merge and moonring::softmax_finish); attention/softmax_merge.h has what it is
// for, and its behaviour at the ends.
//
//   merge    m' = max(m, lse);  A <- A e^(m - m') + out e^(lse - m');
//            l <- l e^(m - m') + e^(lse - m')
//   finish   A <- A / l;  m <- m + log l        (an l of 0 divides as 1)
//
// out [M, H, D], lse [M, H]; m, l [T, H]; A [T, H, D]. Row r of the part meets row rows[r] of the
// state (int64 [M], no row twice), or r where `rows` is undefined and T is M. Rows and heads may be
// strided. All in fp32 or in fp64; out may be bf16 or fp16 beside fp32. Bytes an element of A in
// fp32: 8 read and 4 written (out in 16 bits: 6 and 4).

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
