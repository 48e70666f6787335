#ifndef MOONRING_OBJECTIVES_COMPOSED_LOG_PROB_H_
#define MOONRING_OBJECTIVES_COMPOSED_LOG_PROB_H_

// Log-probs composed of LibTorch's operators, which can be differentiated any number of times, in
// the hidden states and in the head's weight. All logits [T, V] are kept for the backward.

#include <ATen/core/Tensor.h>

#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives {

// A and B of a head with a low-rank term (vocabulary/head_low_rank.h), as tensors; undefined: none.
struct LowRankTensors {
  at::Tensor a_RD, b_VR;
};

// As TokenLogProb (log_prob.h), with the head's weight as a tensor [V, D]. The head's softcap,
// scale and the temperature apply.
at::Tensor ComposedLogProb(const at::Tensor& hidden_TD, const at::Tensor& weight_VD,
                           const at::Tensor& targets_T, const HeadOptions& head, double temperature,
                           const LowRankTensors& low_rank = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_COMPOSED_LOG_PROB_H_
