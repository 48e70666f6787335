#ifndef MOONRING_KERNELS_SOFTMAX_MERGE_LAUNCH_H_
#define MOONRING_KERNELS_SOFTMAX_MERGE_LAUNCH_H_

// A running softmax over parts of the keys (attention/softmax_merge.h has the equations), in place
// and in one pass over A: a warp takes one head of one row.
//
//   merge    m' = max(m, lse);  A <- A e^(m - m') + out e^(lse - m');
//            l <- l e^(m - m') + e^(lse - m')
//   finish   A <- A / l;  m <- m + log l        (an l of 0 divides as 1)
//
// Shapes: out [M, H, D], lse [M, H]; m, l [T, H]; A [T, H, D]. Row r of the part meets row rows[r]
// of the state, or r where `rows` is null; no row twice. Rows and heads may be strided, D is not.
// Bytes an element of A in fp32: 8 read and 4 written (out in 16 bits: 6 and 4). No rows
// launch nothing.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

// Of a tensor [rows, heads, ...]: elements from one to the next.
template <typename Data>
struct RowsAndHeads {
  Data* data;
  int64_t row_stride, head_stride;
};

struct SoftmaxSums {
  Type type;  // fp32 or fp64, of all three
  RowsAndHeads<void> max, sum, weighted;
  int64_t rows, heads, head_dim;  // of what is merged, or finished
};

struct SoftmaxPart {
  Type type;  // of out: that of the sums, or 16 bits beside fp32; lse has that of the sums
  RowsAndHeads<const void> out, lse;
  const int64_t* rows;  // null: each its own
};

void LaunchSoftmaxMerge(const SoftmaxPart& part, const SoftmaxSums& sums, void* stream);
void LaunchSoftmaxFinish(const SoftmaxSums& sums, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_SOFTMAX_MERGE_LAUNCH_H_
