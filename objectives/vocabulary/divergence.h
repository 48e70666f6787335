#ifndef MOONRING_OBJECTIVES_VOCABULARY_DIVERGENCE_H_
#define MOONRING_OBJECTIVES_VOCABULARY_DIVERGENCE_H_

// How far the policy's next-token distribution is from a reference's, for each token, over the
// whole vocabulary (row_divergence.h has the formulas): what distillation is made of. The
// reference's logits y are made a chunk at a time beside the policy's logits z, from its own hidden
// states and head:
//
//   p_t = softmax(z_t / temperature)        q_t = softmax(y_t / temperature)
//
// It is never differentiated: no gradient goes to its hidden states or its head. One of which only
// the top ids are known: top_divergence.h.

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"
#include "objectives/vocabulary/row_divergence.h"

namespace moonring::objectives {

// A reference's hidden states of the same rows, of whatever width, and its head. Its bias, scale,
// softcap and matmul_dtype are its own; its chunk_bytes and vocabulary are not read.
struct ReferenceHead {
  at::Tensor hidden_TD;
  std::shared_ptr<base::Parameter> head_VD;
  ProjectionOptions projection;
};

// hidden_TD, targets_T -> [T] as LossOfRows (row_loss.h) gives and refuses; rows without a target
// are not looked at, the reference's neither. options.vocabulary leaves out ids of both models:
// where one of them has rows beyond the tokenizer's, as padding. Throws where it is not set and the
// vocabularies differ. Cost: that of LossOfRows, and 2NVD' flops forward and again backward. Logits
// of both count as part of chunk_bytes.
at::Tensor TokenDivergence(const at::Tensor& hidden_TD,
                           const std::shared_ptr<base::Parameter>& head_VD,
                           const at::Tensor& targets_T, const ReferenceHead& reference,
                           const Divergence& divergence, const ProjectionOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_DIVERGENCE_H_
