#include "objectives/composed_log_prob.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tanh.h>
#include <c10/util/Exception.h>

#include "comm/sequence.h"

namespace moonring::objectives {

at::Tensor ComposedLogProb(const at::Tensor& hidden_TD, const at::Tensor& weight_VD,
                           const at::Tensor& targets_T, const HeadOptions& head,
                           double temperature) {
  TORCH_CHECK_VALUE(
      hidden_TD.dim() == 2 && weight_VD.dim() == 2 && hidden_TD.size(1) == weight_VD.size(1),
      "objectives.log_prob: hidden states ", hidden_TD.sizes(), ", weight ", weight_VD.sizes(),
      ", expected [T, D] and [V, D]");
  TORCH_CHECK_VALUE(targets_T.dim() == 1 && targets_T.size(0) == hidden_TD.size(0) &&
                        targets_T.scalar_type() == at::kLong,
                    "objectives.log_prob: targets ", targets_T.sizes(), " of ",
                    targets_T.scalar_type(), ", expected int64 [", hidden_TD.size(0), "]");
  TORCH_CHECK_VALUE(head.bias_V == nullptr, "objectives.log_prob: a head with a bias");
  const at::ScalarType wide = hidden_TD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor logits_TV = at::linear(hidden_TD.to(wide), weight_VD.to(wide)) * head.scale;
  if (head.softcap != 0.0) logits_TV = at::tanh(logits_TV / head.softcap) * head.softcap;
  const at::Tensor targets_T1 = targets_T.to(hidden_TD.device()).unsqueeze(1),
                   none_T1 = targets_T1.eq(comm::kIgnore);
  return at::log_softmax(logits_TV / temperature, -1)
      .gather(1, targets_T1.masked_fill(none_T1, 0))
      .masked_fill(none_T1, 0.0)
      .squeeze(1);
}

}  // namespace moonring::objectives
