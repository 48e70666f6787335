#ifndef MOONRING_OBJECTIVES_VOCABULARY_TARGET_ROWS_H_
#define MOONRING_OBJECTIVES_VOCABULARY_TARGET_ROWS_H_

// Computes from a chunk's scores s [R, V] the sums that the log-prob of each row needs, and the
// scores' gradient (equations: log_prob.h). This is done by LibTorch's operators, a few rows at a
// time and in place; or, on a GPU, by a kernel (kernels) in one pass each for forward and backward,
// which also accepts scores in bf16.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::objectives {

struct RowSums {
  at::Tensor picked_RK;  // z at the requested ids
  at::Tensor logsumexp_R;
  at::Tensor total_R;  // sum of exp(z - peak); not computed by the kernel
  at::Tensor mean_R, greedy_R, top_entropy_R, entropy_R;  // undefined if not requested
};

// The targets of each row: one, or K candidates with a weight each. With weights w, the gradients
// below are those of -sum_k w_k log p_k.
struct RowTargets {
  at::Tensor ids_RK;      // int64
  at::Tensor weights_RK;  // undefined: 1, and K = 1
};

// A view of `count` rows from `begin` on.
RowSums Rows(const RowSums& sums, int64_t begin, int64_t count);

// Whether the kernel is used for rows on the device of `tensor`, if one id per row is requested.
bool RowsAreFused(const at::Tensor& tensor);

// Computes the members of `sums` from the scores s, where z is s after the softcap. Overwrites s
// with exp(z - peak), where peak is the row's greatest z; the kernel leaves s unchanged.
void ReduceRows(at::Tensor scores_RV, double softcap, const at::Tensor& ids_RK,
                const RowSums& sums);

// Converts exp(z - peak), the result of ReduceRows, to d(-log p)/ds in place. Only without a
// softcap.
void KeptGradient(at::Tensor kept_RV, double smoothing, const RowTargets& targets,
                  const at::Tensor& total_R);

// Converts s to d(-log p)/ds in place: exp(z - lse) - target, times dz/ds = 1 - (z / softcap)^2.
void ScoreGradient(at::Tensor scores_RV, double softcap, double smoothing,
                   const RowTargets& targets, const at::Tensor& logsumexp_R);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_TARGET_ROWS_H_
