#ifndef MOONRING_KERNELS_CROSS_ENTROPY_ROWS_LAUNCH_H_
#define MOONRING_KERNELS_CROSS_ENTROPY_ROWS_LAUNCH_H_

// Computes from rows of logits s (the output of the head's matmul) what a token loss needs, and the
// gradient:
//
//   z = softcap tanh(s / softcap), or s if softcap is 0
//   forward    picked = z[target];  lse = log sum exp z;  mean of z;  greedy = argmax z
//   backward   s <- (exp(z - lse) - (1 - e) onehot(target) - e / V) (1 - (z / softcap)^2)
//
// The backward is d(-log p)/ds for log p = (1 - e) picked + e mean - lse, where e is the label
// smoothing. One block per row: the forward makes one pass (a running maximum, and the sum relative
// to it), the backward another, in place.
//
// Shapes: s [R, V], R rows of V logits (V: size of the vocabulary), with contiguous rows; targets
// int64 [R], each in 0 .. V - 1; the others [R], in fp32 (fp64 if s is). Ties of greedy go to the
// lowest id. A NaN or +inf makes its row's lse NaN. Cost: the forward reads R V numbers, the
// backward reads and writes them. A row is read one number at a time if it does not begin at a
// multiple of 16 bytes, or if the gap after it (up to the next multiple) must not be written. With
// no rows nothing is launched.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct ScoreRows {
  Type type;
  void* scores_RV;  // not changed by the forward
  int64_t rows, vocabulary, stride;
  bool may_write_gaps;  // after each row, up to a multiple of 16 bytes
  double softcap;       // 0: none
  const int64_t* targets_R;
};

struct RowResults {
  void *picked_R, *logsumexp_R;
  void* mean_R;       // null: not computed
  int64_t* greedy_R;  // null: not computed
};

void LaunchCrossEntropyRows(const ScoreRows& rows, const RowResults& results, void* stream);
void LaunchCrossEntropyRowsBackward(const ScoreRows& rows, double smoothing,
                                    const void* logsumexp_R, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_CROSS_ENTROPY_ROWS_LAUNCH_H_
