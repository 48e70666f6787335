#ifndef MOONRING_KERNELS_CROSS_ENTROPY_ROWS_H_
#define MOONRING_KERNELS_CROSS_ENTROPY_ROWS_H_

// Computes from rows of logits s (the output of the head's matmul) what a token loss needs, and the
// gradient (operators moonring::cross_entropy_rows and moonring::cross_entropy_rows_backward):
//
//   z = softcap tanh(s / softcap), or s if softcap is 0
//   forward    picked = z[target];  lse = log sum exp z;  mean of z;  greedy = argmax z
//   backward   s <- (exp(z - lse) - (1 - e) onehot(target) - e / V) (1 - (z / softcap)^2)
//
// The backward is d(-log p)/ds for log p = (1 - e) picked + e mean - lse, where e is the label
// smoothing.
//
// s_RV, R rows of V logits (V: size of the vocabulary), has contiguous rows, in fp32, bf16, fp16 or
// fp64. targets are int64 [R], each in 0 .. V - 1. Results are [R], in fp32 (fp64 if s is). Ties of
// greedy go to the lowest id. A NaN or +inf makes its row's lse NaN. R may be zero. Sums have a
// fixed order.
//
// Memory traffic: the forward reads s once, the backward reads and writes it. It is fast if rows
// begin at multiples of 16 bytes, and also end there or are followed by a gap. If the stride leaves
// such a gap after a row, the backward may overwrite it, up to the next multiple of 16 bytes.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kCrossEntropyRows[] = "moonring::cross_entropy_rows";

// Output tensors; mean and greedy (int64) may be undefined, and are then not computed.
struct TargetRows {
  at::Tensor picked_R, logsumexp_R, mean_R, greedy_R;
};

// Writes the results for each row; does not change the scores.
void CrossEntropyRows(const at::Tensor& scores_RV, double softcap, const at::Tensor& targets_R,
                      const TargetRows& results);

void CrossEntropyRowsBackward(at::Tensor scores_RV, double softcap, double smoothing,
                              const at::Tensor& targets_R, const at::Tensor& logsumexp_R);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_CROSS_ENTROPY_ROWS_H_
