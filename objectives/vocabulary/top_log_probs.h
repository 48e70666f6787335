#ifndef MOONRING_OBJECTIVES_VOCABULARY_TOP_LOG_PROBS_H_
#define MOONRING_OBJECTIVES_VOCABULARY_TOP_LOG_PROBS_H_

// The most likely next tokens and their log-probs over the whole vocabulary, in chunks of rows:
// they are stored for a reference model and used later as ReferenceTop (top_divergence.h).

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives {

struct TopLogProbs {
  at::Tensor ids_TK;        // int64, the most likely first; -1 where there is no target
  at::Tensor log_probs_TK;  // fp32 or fp64, of softmax(z / temperature); -inf where there is no
                            // target
};

// hidden_TD, targets_T as in LossOfRows (row_loss.h). Not differentiable. Throws where `top` is not
// from 1 to the vocabulary's size, or temperature is not greater than 0.
TopLogProbs TokenTopLogProbs(const at::Tensor& hidden_TD, const base::Parameter& head_VD,
                             const at::Tensor& targets_T, int64_t top, double temperature = 1.0,
                             const ProjectionOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_TOP_LOG_PROBS_H_
