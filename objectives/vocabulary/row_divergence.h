#ifndef MOONRING_OBJECTIVES_VOCABULARY_ROW_DIVERGENCE_H_
#define MOONRING_OBJECTIVES_VOCABULARY_ROW_DIVERGENCE_H_

// How far a distribution p is from another one, q, over M outcomes, row by row, whatever the
// outcomes are: ids, or ids and the rest of them together. With a the logits of p = softmax(a):
//
//   forward  KL(q || p) = sum_v q_v (log q_v - log p_v)      d/da_v = p_v - q_v
//   reverse  KL(p || q) = sum_v p_v (log p_v - log q_v)      d/da_v = p_v (log p_v - log q_v - KL)
//   js       beta KL(q || m) + (1 - beta) KL(p || m), with m = beta q + (1 - beta) p and
//            0 < beta < 1                                    d/da_v = (1 - beta) p_v
//                                                               (u_v - sum p u), u = log p - log m
//
// js is the generalised Jensen-Shannon divergence of Agarwal et al. 2024 (On-policy distillation of
// language models, arXiv 2306.13649), the usual one at beta = 1/2. Over beta it goes to forward as
// beta goes to 0, over 1 - beta to reverse as beta goes to 1.

#include <ATen/core/Tensor.h>

namespace moonring::objectives {

enum class DivergenceKind { kForward, kReverse, kJs };

struct Divergence {
  DivergenceKind kind = DivergenceKind::kForward;
  double beta = 0.5;  // of js
  // p = softmax(z / temperature), and q alike; more than 0. The divergence is not multiplied by its
  // square, by which Hinton et al. 2015 (arXiv 1503.02531) keep gradients in size: a caller may.
  double temperature = 1.0;
};

// What errors of the losses that are made of it begin with.
inline constexpr char kDivergenceName[] = "objectives.divergence";

// Throws (TORCH_CHECK_VALUE), naming `caller`, where a number is out of its bounds.
void CheckDivergence(const char* caller, const Divergence& divergence);

struct RowDivergence {
  at::Tensor value_R;
  at::Tensor gradient_RM;  // in a; undefined where not wanted
};

// log_p_RM, log_q_RM: log-probs that sum to 1 in each row, as tempered as they are to be. An
// outcome to which q gives no mass has a log_q of -1e30, not -inf, for which 0 x inf would be NaN.
// Writes over both.
RowDivergence DivergenceOfRows(const Divergence& divergence, at::Tensor log_p_RM,
                               at::Tensor log_q_RM, bool differentiate);

// Tensors of the arguments' size that it makes beside them.
inline constexpr int64_t kDivergenceIntermediates = 4;

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_ROW_DIVERGENCE_H_
