#include "objectives/vocabulary/row_divergence.h"

#include <cmath>

#include <ATen/ATen.h>

namespace moonring::objectives {
namespace {

RowDivergence ForwardDivergence(at::Tensor log_p_RM, at::Tensor log_q_RM, bool differentiate) {
  const at::Tensor q_RM = log_q_RM.exp();
  RowDivergence result{.value_R = log_q_RM.sub_(log_p_RM).mul_(q_RM).sum(1)};
  if (differentiate) result.gradient_RM = log_p_RM.exp_().sub_(q_RM);
  return result;
}

// Computes weight * p * (ratio - mean), where mean is the row sum of p * ratio. The result is
// written to ratio.
at::Tensor Centred(const at::Tensor& p_RM, at::Tensor ratio_RM, const at::Tensor& mean_R,
                   double weight) {
  ratio_RM.sub_(mean_R.unsqueeze(1)).mul_(p_RM);
  return weight == 1.0 ? ratio_RM : ratio_RM.mul_(weight);
}

RowDivergence Reverse(at::Tensor log_p_RM, at::Tensor log_q_RM, bool differentiate) {
  const at::Tensor p_RM = log_p_RM.exp();
  at::Tensor ratio_RM = log_p_RM.sub_(log_q_RM);
  RowDivergence result{.value_R = (p_RM * ratio_RM).sum(1)};
  if (differentiate) result.gradient_RM = Centred(p_RM, ratio_RM, result.value_R, 1.0);
  return result;
}

RowDivergence Js(double beta, at::Tensor log_p_RM, at::Tensor log_q_RM, bool differentiate) {
  const at::Tensor log_m_RM =
      at::logaddexp(log_q_RM + std::log(beta), log_p_RM + std::log1p(-beta));
  const at::Tensor q_RM = log_q_RM.exp();
  const at::Tensor of_q_R = log_q_RM.sub_(log_m_RM).mul_(q_RM).sum(1);
  const at::Tensor p_RM = at::exp_out(log_q_RM, log_p_RM);  // reuses a buffer
  at::Tensor ratio_RM = log_p_RM.sub_(log_m_RM);
  const at::Tensor of_p_R = (p_RM * ratio_RM).sum(1);
  RowDivergence result{.value_R = of_q_R * beta + of_p_R * (1.0 - beta)};
  if (differentiate) result.gradient_RM = Centred(p_RM, ratio_RM, of_p_R, 1.0 - beta);
  return result;
}

}  // namespace

void CheckDivergence(const char* caller, const Divergence& divergence) {
  TORCH_CHECK_VALUE(divergence.temperature > 0.0, caller, ": temperature is ",
                    divergence.temperature, ", expected more than 0");
  TORCH_CHECK_VALUE(
      divergence.kind != DivergenceKind::kJs || (divergence.beta > 0.0 && divergence.beta < 1.0),
      caller, ": beta is ", divergence.beta,
      ", expected more than 0 and less than 1 (at the ends js is 0: forward and "
      "reverse are what it goes to over beta and over 1 - beta)");
}

RowDivergence DivergenceOfRows(const Divergence& divergence, at::Tensor log_p_RM,
                               at::Tensor log_q_RM, bool differentiate) {
  switch (divergence.kind) {
    case DivergenceKind::kForward:
      return ForwardDivergence(log_p_RM, log_q_RM, differentiate);
    case DivergenceKind::kReverse:
      return Reverse(log_p_RM, log_q_RM, differentiate);
    case DivergenceKind::kJs:
      break;
  }
  return Js(divergence.beta, log_p_RM, log_q_RM, differentiate);
}

}  // namespace moonring::objectives
