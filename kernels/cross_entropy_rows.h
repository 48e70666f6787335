#ifndef MOONRING_KERNELS_CROSS_ENTROPY_ROWS_H_
#define MOONRING_KERNELS_CROSS_ENTROPY_ROWS_H_

// Rows of logits s, as the head's product left them, to what a loss of tokens wants of them, and
// back (operators moonring::cross_entropy_rows and moonring::cross_entropy_rows_backward):
//
//   z = softcap tanh(s / softcap), or s where softcap is 0
//   forward    picked = z[target];  lse = log sum exp z;  mean of z;  greedy = argmax z
//   backward   s <- (exp(z - lse) - (1 - e) onehot(target) - e / V) (1 - (z / softcap)^2)
//
// which is d(-log p)/ds of log p = (1 - e) picked + e mean - lse.
//
// s_RV, with contiguous rows, in fp32, bf16, fp16 or fp64; targets int64 [R], each in 0 ..
// V - 1; results [R], in fp32 (fp64 where s is). Ties of greedy go to the lowest id. A NaN or +inf
// makes its row's lse NaN. Any R, zero among them. Bytes: forward reads s once, backward reads and
// writes it; fast where rows begin at multiples of 16 bytes and end there or have a gap behind
// them: the backward may overwrite what follows a row, up to the next multiple of 16 bytes, if the
// stride leaves room. Sums have a fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kCrossEntropyRows[] = "moonring::cross_entropy_rows";

// Written into; mean and greedy (int64) may be undefined.
struct TargetRows {
  at::Tensor picked_R, logsumexp_R, mean_R, greedy_R;
};

// Leaves the scores as they are.
void CrossEntropyRows(const at::Tensor& scores_RV, double softcap, const at::Tensor& targets_R,
                      const TargetRows& results);

void CrossEntropyRowsBackward(at::Tensor scores_RV, double softcap, double smoothing,
                              const at::Tensor& targets_R, const at::Tensor& logsumexp_R);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_CROSS_ENTROPY_ROWS_H_
