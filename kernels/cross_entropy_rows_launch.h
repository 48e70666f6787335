#ifndef MOONRING_KERNELS_CROSS_ENTROPY_ROWS_LAUNCH_H_
#define MOONRING_KERNELS_CROSS_ENTROPY_ROWS_LAUNCH_H_

// Rows of logits s, as the head's product left them, to what a loss of tokens wants of them, and
// back:
//
//   z = softcap tanh(s / softcap), or s where softcap is 0
//   forward    picked = z[target];  lse = log sum exp z;  mean of z;  greedy = argmax z
//   backward   s <- (exp(z - lse) - (1 - e) onehot(target) - e / V) (1 - (z / softcap)^2)
//
// which is d(-log p)/ds of log p = (1 - e) picked + e mean - lse. A block takes a row: forward in
// one pass (a running maximum, and the sum against it), backward in another, in place.
//
// Shapes: s [R, V] with contiguous rows; targets int64 [R], each in 0 .. V - 1; the
// others [R], in fp32 (fp64 where s is). Ties of greedy go to the lowest id. A NaN or +inf makes
// its row's lse NaN. Cost: forward reads R V numbers, backward reads and writes them; rows that do
// not begin at multiples of 16 bytes, or whose last word may not be written, are read number by
// number. No rows launch nothing.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct ScoreRows {
  Type type;
  void* scores_RV;  // forward leaves them as they are
  int64_t rows, vocabulary, stride;
  bool may_write_gaps;  // the gap after a row, up to a multiple of 16 bytes
  double softcap;       // 0: none
  const int64_t* targets_R;
};

struct RowResults {
  void *picked_R, *logsumexp_R;
  void* mean_R;       // null: not wanted
  int64_t* greedy_R;  // null: not wanted
};

void LaunchCrossEntropyRows(const ScoreRows& rows, const RowResults& results, void* stream);
void LaunchCrossEntropyRowsBackward(const ScoreRows& rows, double smoothing,
                                    const void* logsumexp_R, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_CROSS_ENTROPY_ROWS_LAUNCH_H_
