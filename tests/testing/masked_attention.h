#ifndef MOONRING_TESTS_TESTING_MASKED_ATTENTION_H_
#define MOONRING_TESTS_TESTING_MASKED_ATTENTION_H_

// Attention computed from its definition: the whole [T, T] score matrix, a mask (causal inside
// documents, or a test's own), and a softmax. It uses plain autograd and no code of attention/, so
// it is an independent reference for tests of attention and of the model.

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention/attention.h"
#include "attention/kernels/mask.h"

namespace moonring::testing {

// Returns a bool [T, T], true where a query (row) must not attend to a key (column). `documents` is
// empty or has one mask per document; the chain of parents must not contain a cycle.
inline at::Tensor HiddenPairs(const std::vector<int64_t>& lengths,
                              std::vector<attention::DocumentMask> documents, int64_t window) {
  documents.resize(lengths.size());
  std::vector<int64_t> first = {0};  // the row of each document's first token
  for (const int64_t length : lengths) first.push_back(first.back() + length);
  struct Token {
    int64_t row;
    bool is_global;  // of its document's prefix
  };
  // Returns the tokens that precede token `end` of a document, in the order of reading: those of
  // its ancestors, then its own.
  const std::function<std::vector<Token>(int64_t, int64_t)> read = [&](int64_t d, int64_t end) {
    const attention::DocumentMask& of = documents[d];
    std::vector<Token> text =
        of.parent < 0 ? std::vector<Token>() : read(of.parent, of.parent_tokens);
    for (int64_t t = 0; t < end; ++t) text.push_back({first[d] + t, t < of.prefix});
    return text;
  };
  at::Tensor hidden = at::ones({first.back(), first.back()}, at::kBool);
  bool* const pairs = hidden.mutable_data_ptr<bool>();
  for (size_t d = 0; d < lengths.size(); ++d) {
    const std::vector<Token> text = read(static_cast<int64_t>(d), lengths[d]);
    const auto size = static_cast<int64_t>(text.size());
    for (int64_t x = size - lengths[d]; x < size; ++x) {
      for (int64_t y = 0; y < size; ++y) {
        const bool near = y <= x && (window == 0 || x - y < window);
        if (near || text[y].is_global) pairs[text[x].row * first.back() + text[y].row] = false;
      }
    }
  }
  return hidden;
}

class MaskedAttention : public attention::PlannedAttention {
 public:
  explicit MaskedAttention(std::vector<int64_t> lengths,
                           std::vector<attention::DocumentMask> documents = {})
      : lengths_(std::move(lengths)), documents_(std::move(documents)) {}

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
    const at::Tensor hidden_TT = HiddenPairs(lengths_, documents_, rule.window);
    scores = scores.masked_fill(hidden_TT, -std::numeric_limits<double>::infinity());
    if (rule.sink_H.defined()) {
      // The attention sink is one more key, without a value.
      const at::Tensor sink_HT1 =
          rule.sink_H.to(wide).view({-1, 1, 1}).expand({-1, scores.size(1), 1});
      scores = at::cat({scores, sink_HT1}, 2);
      return at::matmul(scores.softmax(-1).narrow(2, 0, k.size(1)), v)
          .transpose(0, 1)
          .to(q_THD.scalar_type());
    }
    return at::matmul(scores.softmax(-1), v).transpose(0, 1).to(q_THD.scalar_type());
  }

  int calls = 0;

 private:
  std::vector<int64_t> lengths_;
  std::vector<attention::DocumentMask> documents_;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_MASKED_ATTENTION_H_
