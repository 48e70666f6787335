#ifndef MOONRING_OBJECTIVES_VOCABULARY_TARGET_ROWS_H_
#define MOONRING_OBJECTIVES_VOCABULARY_TARGET_ROWS_H_

// From a chunk's scores s [R, V] to what the loss of tokens wants of each row, and to the scores'
// gradient (log_prob.h has the equations). In composed operators a few rows at a time, in place;
// or, on a GPU that has the kernel (kernels), in one pass each way, for scores in bf16 too.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::objectives {

struct RowSums {
  at::Tensor picked_RK;  // z at the ids asked for
  at::Tensor logsumexp_R;
  at::Tensor total_R;  // sum of exp(z - peak); the kernel leaves it
  at::Tensor mean_R, greedy_R, top_entropy_R, entropy_R;  // undefined where nobody asks
};

// Of `count` rows from `begin` on.
RowSums Rows(const RowSums& sums, int64_t begin, int64_t count);

// Whether rows on the device of `tensor`, with one id asked for of each, go through the kernel.
bool RowsAreFused(const at::Tensor& tensor);

// From s: what RowSums names, of z. Leaves exp(z - peak) in place of s; the kernel leaves s.
void ReduceRows(at::Tensor scores_RV, double softcap, const at::Tensor& ids_RK,
                const RowSums& sums);

// exp(z - peak), as ReduceRows left it, -> d(-log p)/ds where there is no softcap.
void KeptGradient(at::Tensor kept_RV, double smoothing, const at::Tensor& targets_R,
                  const at::Tensor& total_R);

// s -> d(-log p)/ds in place: exp(z - lse) - target, times dz/ds = 1 - (z / softcap)^2.
void ScoreGradient(at::Tensor scores_RV, double softcap, double smoothing,
                   const at::Tensor& targets_R, const at::Tensor& logsumexp_R);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_TARGET_ROWS_H_
