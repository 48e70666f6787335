#include "objectives/composed_log_prob.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tanh.h>
#include <c10/util/Exception.h>

#include "comm/sequence.h"
#include "objectives/log_prob.h"

namespace moonring::objectives {

at::Tensor ComposedLogProb(const at::Tensor& hidden_TD, const at::Tensor& weight_VD,
                           const at::Tensor& targets_T, const HeadOptions& head, double temperature,
                           const LowRankTensors& low_rank) {
  TORCH_CHECK_VALUE(
      hidden_TD.dim() == 2 && weight_VD.dim() == 2 && hidden_TD.size(1) == weight_VD.size(1),
      "objectives.log_prob: hidden states ", hidden_TD.sizes(), ", weight ", weight_VD.sizes(),
      ", expected [T, D] and [V, D]");
  TORCH_CHECK_VALUE(
      (targets_T.dim() == 1 || targets_T.dim() == 2) && targets_T.size(0) == hidden_TD.size(0) &&
          targets_T.scalar_type() == at::kLong,
      "objectives.log_prob: targets ", targets_T.sizes(), " of ", targets_T.scalar_type(),
      ", expected int64 [", hidden_TD.size(0), "] or [", hidden_TD.size(0), ", K]");
  TORCH_CHECK_VALUE(head.bias_V == nullptr, "objectives.log_prob: a head with a bias");
  const at::ScalarType wide = hidden_TD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor logits_TV = at::linear(hidden_TD.to(wide), weight_VD.to(wide));
  if (low_rank.a_RD.defined()) {
    TORCH_CHECK_VALUE(head.low_rank.has_value(), "objectives.log_prob: a head without A and B");
    const HeadLowRank& of_head = *head.low_rank;
    const LowRankTerm term(of_head, wide, hidden_TD, at::Tensor());
    const at::Tensor u_TK = at::linear(term.Dropped(hidden_TD.to(wide), 0), low_rank.a_RD.to(wide));
    logits_TV = logits_TV + at::linear(u_TK, low_rank.b_VR.to(wide)) * of_head.factor;
  }
  logits_TV = logits_TV * head.scale;
  if (head.softcap != 0.0) logits_TV = at::tanh(logits_TV / head.softcap) * head.softcap;
  const bool one_target = targets_T.dim() == 1;
  at::Tensor targets_TK = targets_T.to(hidden_TD.device());
  if (one_target) targets_TK = targets_TK.unsqueeze(1);
  at::Tensor none_TK = targets_TK.eq(comm::kIgnore);
  if (!one_target) none_TK = none_TK.logical_or(targets_TK.eq(kNoCandidate));
  const at::Tensor log_prob_TK = at::log_softmax(logits_TV / temperature, -1)
                                     .gather(1, targets_TK.masked_fill(none_TK, 0))
                                     .masked_fill(none_TK, 0.0);
  return one_target ? log_prob_TK.squeeze(1) : log_prob_TK;
}

}  // namespace moonring::objectives
