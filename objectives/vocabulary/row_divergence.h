#ifndef MOONRING_OBJECTIVES_VOCABULARY_ROW_DIVERGENCE_H_
#define MOONRING_OBJECTIVES_VOCABULARY_ROW_DIVERGENCE_H_

// Divergence of a distribution p from a distribution q over M outcomes, row by row. An outcome is a
// token id, or all ids that are not listed together. a denotes the logits, p = softmax(a):
//
//   forward  KL(q || p) = sum_v q_v (log q_v - log p_v)      d/da_v = p_v - q_v
//   reverse  KL(p || q) = sum_v p_v (log p_v - log q_v)      d/da_v = p_v (log p_v - log q_v - KL)
//   js       beta KL(q || m) + (1 - beta) KL(p || m), with m = beta q + (1 - beta) p and
//            0 < beta < 1                                    d/da_v = (1 - beta) p_v
//                                                               (u_v - sum p u), u = log p - log m
//
// js is the generalized Jensen-Shannon divergence of Agarwal et al. 2024 (On-policy distillation of
// language models, arXiv 2306.13649), the usual one at beta = 1/2. Divided by beta it tends to
// forward as beta goes to 0; divided by 1 - beta it tends to reverse as beta goes to 1.

#include <ATen/core/Tensor.h>

namespace moonring::objectives {

enum class DivergenceKind { kForward, kReverse, kJs };

struct Divergence {
  DivergenceKind kind = DivergenceKind::kForward;
  double beta = 0.5;  // of js
  // p = softmax(z / temperature), and q likewise; greater than 0. The divergence is not multiplied
  // by temperature^2, which keeps gradients in scale (Hinton et al. 2015, arXiv 1503.02531); a
  // caller may do so.
  double temperature = 1.0;
};

// The name that error messages of divergence losses begin with.
inline constexpr char kDivergenceName[] = "objectives.divergence";

// Throws (TORCH_CHECK_VALUE), naming `caller`, where a number is out of range.
void CheckDivergence(const char* caller, const Divergence& divergence);

struct RowDivergence {
  at::Tensor value_R;
  at::Tensor gradient_RM;  // with respect to a; undefined where not needed
};

// log_p_RM, log_q_RM: log-probs that sum to 1 in each row, with the temperature already applied. An
// outcome without mass in q has a log_q of -1e30 and not -inf, since 0 x inf would be NaN.
// Overwrites both.
RowDivergence DivergenceOfRows(const Divergence& divergence, at::Tensor log_p_RM,
                               at::Tensor log_q_RM, bool differentiate);

// Number of temporary tensors of the arguments' size.
inline constexpr int64_t kDivergenceIntermediates = 4;

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_ROW_DIVERGENCE_H_
