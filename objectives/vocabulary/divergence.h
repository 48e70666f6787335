#ifndef MOONRING_OBJECTIVES_VOCABULARY_DIVERGENCE_H_
#define MOONRING_OBJECTIVES_VOCABULARY_DIVERGENCE_H_

// Divergence of the policy's next-token distribution from a reference's over the whole vocabulary,
// for each token (formulas: row_divergence.h): the loss of distillation. The reference's logits y
// are computed from the reference's hidden states and head, a chunk of rows at a time, together
// with the policy's logits z:
//
//   p_t = softmax(z_t / temperature)        q_t = softmax(y_t / temperature)
//
// No gradient goes to the reference's hidden states or head. If only the reference's most likely
// ids are known, use top_divergence.h.

#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"
#include "objectives/vocabulary/row_divergence.h"

namespace moonring::objectives {

// A reference model's hidden states for the same rows, of any width, and its head. Bias, scale,
// softcap and matmul_dtype of `projection` apply to the reference; its chunk_bytes and vocabulary
// are ignored.
struct ReferenceHead {
  at::Tensor hidden_TD;
  std::shared_ptr<base::Parameter> head_VD;
  ProjectionOptions projection;
};

// Returns one divergence per row, [T], with the conventions and errors of LossOfRows (row_loss.h).
// Rows without a target are ignored in both models. options.vocabulary restricts the ids of both
// models, for example where one of them has padding rows beyond the tokenizer's ids. If this option
// is 0 and the vocabularies' sizes differ, it throws. Cost: that of LossOfRows, and 2NVD' flops in
// the forward and in the backward (N rows with a target, V ids; D': the width of the reference's
// hidden states). Logits of both models count in chunk_bytes.
at::Tensor TokenDivergence(const at::Tensor& hidden_TD,
                           const std::shared_ptr<base::Parameter>& head_VD,
                           const at::Tensor& targets_T, const ReferenceHead& reference,
                           const Divergence& divergence, const ProjectionOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_VOCABULARY_DIVERGENCE_H_
