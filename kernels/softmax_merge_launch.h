#ifndef MOONRING_KERNELS_SOFTMAX_MERGE_LAUNCH_H_
#define MOONRING_KERNELS_SOFTMAX_MERGE_LAUNCH_H_

// Merges attention results over sections of the keys into a running softmax
// (attention/kernels/softmax_merge.h has the equations), in place and in one pass over A: one warp
// per head of a row.
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
// Shapes: out [M, H, D], lse [M, H]; m, l [T, H]; A [T, H, D]. Row r of out is merged into row
// rows[r] of the state, or into row r if `rows` is null; no row twice. Rows and heads may be
// strided, D may not. Bytes per element of A in fp32: 8 read and 4 written (with a 16-bit out 6 and
// 4). With no rows nothing is launched.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

// A tensor [rows, heads, ...]; strides in elements.
template <typename Data>
struct RowsAndHeads {
  Data* data;
  int64_t row_stride, head_stride;
};

struct SoftmaxSums {
  Type type;  // fp32 or fp64, the same for all three
  RowsAndHeads<void> max, sum, weighted;
  int64_t rows, heads, head_dim;  // of the rows to merge or finish
};

struct SoftmaxPart {
  Type type;  // of out: as the sums, or 16-bit with fp32 sums; lse is as the sums
  RowsAndHeads<const void> out, lse;
  const int64_t* rows;  // null: row r to row r
};

void LaunchSoftmaxMerge(const SoftmaxPart& part, const SoftmaxSums& sums, void* stream);
void LaunchSoftmaxFinish(const SoftmaxSums& sums, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_SOFTMAX_MERGE_LAUNCH_H_
