#ifndef MOONRING_OBJECTIVES_VOCABULARY_ENTROPY_H_
#define MOONRING_OBJECTIVES_VOCABULARY_ENTROPY_H_

// The entropy H_t of each next-token distribution p_t over the whole vocabulary, in nats, from the
// logits z_t of token t.
//
//   p_t = softmax(z_t / temperature)        H_t = -sum_v p_tv log p_tv
//   dH/dz_v = -p_v (log p_v + H) / temperature
//
// Used as a bonus that keeps a policy exploring (reinforcement learning); its mean is a metric.

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives {

// Returns one entropy per row, [T], with the conventions and errors of LossOfRows (row_loss.h).
// temperature > 0.
at::Tensor TokenEntropy(const at::Tensor& hidden_TD,
                        const std::shared_ptr<base::Parameter>& head_VD,
                        const at::Tensor& targets_T, double temperature = 1.0,
                        const ProjectionOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_ENTROPY_H_
