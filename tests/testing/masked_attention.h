#ifndef MOONRING_TESTS_TESTING_MASKED_ATTENTION_H_
#define MOONRING_TESTS_TESTING_MASKED_ATTENTION_H_

// Attention by its definition: the whole [T, T] matrix of scores, a mask that is causal inside
// documents, a softmax. A second source for tests of the model, with plain autograd and no code of
// attention/.

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention/attention.h"

namespace moonring::testing {

class MaskedAttention : public attention::PlannedAttention {
 public:
  explicit MaskedAttention(const std::vector<int64_t>& lengths) {
    std::vector<at::Tensor> documents;
    for (size_t d = 0; d < lengths.size(); ++d)
      documents.push_back(at::full({lengths[d]}, static_cast<int64_t>(d), at::kLong));
    const at::Tensor document_T =
        documents.empty() ? at::empty({0}, at::kLong) : at::cat(documents);
    hidden_TT_ =
        document_T.unsqueeze(0)
            .ne(document_T.unsqueeze(1))
            .logical_or(at::ones({document_T.size(0), document_T.size(0)}, at::kBool).triu(1));
  }

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const attention::ScoreRule& rule, attention::KeptAttention*) override {
    ++calls;
    const int64_t share = q_THD.size(1) / k_TKD.size(1);
    const at::ScalarType wide = q_THD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor q = q_THD.to(wide).transpose(0, 1);
    const at::Tensor k = k_TKD.to(wide).repeat_interleave(share, 1).transpose(0, 1),
                     v = v_TKD.to(wide).repeat_interleave(share, 1).transpose(0, 1);
    at::Tensor scores = at::matmul(q * rule.scale, k.transpose(1, 2));
    if (rule.softcap > 0) scores = (scores / rule.softcap).tanh() * rule.softcap;
    scores = scores.masked_fill(Hidden(rule.window), -std::numeric_limits<double>::infinity());
    return at::matmul(scores.softmax(-1), v).transpose(0, 1).to(q_THD.scalar_type());
  }

  int calls = 0;

 private:
  // A window is of tokens in a document: their distance in the stream.
  at::Tensor Hidden(int64_t window) const {
    return window > 0 ? hidden_TT_.logical_or(at::ones_like(hidden_TT_).tril(-window)) : hidden_TT_;
  }

  at::Tensor hidden_TT_;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_MASKED_ATTENTION_H_
