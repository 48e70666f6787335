#ifndef MOONRING_OBJECTIVES_VOCABULARY_Z_LOSS_H_
#define MOONRING_OBJECTIVES_VOCABULARY_Z_LOSS_H_

// z-loss Z_t of the logits z_t of token t: penalizes the drift of logits away from being log-probs
// (PaLM: Chowdhery et al. 2022, arXiv 2204.02311, section 5, which adds 1e-4 of it to the loss):
//
//   Z_t = logsumexp(z_t)^2        dZ/dz_v = 2 logsumexp(z_t) softmax(z_t)_v

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives {

// Returns Z for each row, [T], with the conventions and errors of LossOfRows (row_loss.h).
at::Tensor TokenZLoss(const at::Tensor& hidden_TD, const std::shared_ptr<base::Parameter>& head_VD,
                      const at::Tensor& targets_T, const ProjectionOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_Z_LOSS_H_
