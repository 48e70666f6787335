#ifndef MOONRING_TESTS_MODEL_ROLLOUT_WHOLE_TEXTS_H_
#define MOONRING_TESTS_MODEL_ROLLOUT_WHOLE_TEXTS_H_

// Small models for tests of rollouts, and the comparison of an answer with a forward of its whole
// text, with attention from its definition.

#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "gtest/gtest.h"
#include "mixers/over_ranks/local_mixing.h"
#include "model/config/weights.h"
#include "model/rollout/rollout.h"
#include "model/transformer.h"
#include "nlohmann/json.hpp"
#include "tests/model/small_config.h"
#include "tests/testing/masked_attention.h"

namespace moonring::model {

using Answers = std::vector<std::vector<Answer>>;

inline std::vector<int64_t> RandomIds(int64_t count, int64_t vocabulary) {
  const at::Tensor ids = at::randint(vocabulary, {count}, at::kLong);
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + count};
}

inline std::unique_ptr<Transformer> SmallModel(
    at::ScalarType dtype, int64_t positions = 2048,
    at::ScalarType matmul = at::ScalarType::Undefined,
    const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json changes = {{"vocab_size", 61},
                            {"hidden_size", 32},
                            {"intermediate_size", 48},
                            {"num_hidden_layers", 3},
                            {"tie_word_embeddings", false},
                            {"max_position_embeddings", positions}};
  changes.update(more);
  const ModelConfig config = testing::ParsedConfig(testing::SmallJson(changes));
  at::manual_seed(9);
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    parameters.push_back(std::make_shared<base::Parameter>(
        weight.name, (at::randn(weight.shape, at::kDouble) * 0.4).to(dtype)));
  }
  if (matmul == at::ScalarType::Undefined) matmul = dtype;
  return Transformer::Create(config, std::move(parameters),
                             {.weight_dtype = dtype, .matmul_dtype = matmul})
      .value();
}

inline std::vector<RolloutPrompt> Prompts(const std::vector<int64_t>& lengths) {
  at::manual_seed(17);
  std::vector<RolloutPrompt> prompts;
  for (const int64_t length : lengths) prompts.push_back({RandomIds(length, 61), prompts.size()});
  return prompts;
}

// Returns the logits of some rows, computed by a forward of the whole text in fp32 or fp64.
inline at::Tensor LogitsOf(Transformer& model, const std::vector<int64_t>& ids, int64_t from) {
  const at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(ids.size());
  const auto attention = std::make_shared<testing::MaskedAttention>(std::vector<int64_t>{count});
  const ForwardOptions options{
      .lengths_T = at::full({count}, count, at::kLong),
      .mixing = std::make_shared<mixers::LocalMixing>(std::vector<int64_t>{count})};
  const at::Tensor hidden =
      model.Forward(at::tensor(ids, at::kLong), at::arange(count, at::kLong), attention, options)
          .hidden_TD.narrow(0, from, count - from);
  const ModelConfig& config = model.config();
  const at::ScalarType dtype = model.options().matmul_dtype;
  const at::Tensor logits =
      at::linear(hidden.to(dtype), model.head()->Lease(dtype)).to(hidden.scalar_type()) *
      config.logit_scale;
  return config.logit_softcap > 0 ? (logits / config.logit_softcap).tanh() * config.logit_softcap
                                  : logits;
}

// Expects that each sampled token and its log-prob are those that the logits of the whole text
// give.
inline void ExpectAsWhole(Transformer& model, const RolloutPrompt& prompt, uint64_t number,
                          const Answer& answer, const SamplingOptions& options, double bound) {
  ASSERT_EQ(answer.ids.size(), answer.log_probs.size());
  ASSERT_EQ(answer.ids.size(), answer.mask.size());
  std::vector<int64_t> text = prompt.ids;
  text.insert(text.end(), answer.ids.begin(), answer.ids.end() - 1);
  const at::Tensor logits = LogitsOf(model, text, static_cast<int64_t>(prompt.ids.size()) - 1);
  for (size_t i = 0; i < answer.ids.size(); ++i) {
    if (answer.mask[i] == 0) {
      EXPECT_EQ(answer.log_probs[i], 0.0);
      continue;
    }
    const auto before = absl::MakeConstSpan(answer.ids).subspan(0, i);
    const Choice wanted = ChooseTokens(
        {{logits[static_cast<int64_t>(i)], prompt.ids, before, prompt.key, number}}, options)[0];
    ASSERT_EQ(answer.ids[i], wanted.id) << "token " << i << " of answer " << number;
    EXPECT_NEAR(answer.log_probs[i], wanted.log_prob, bound);
    const double temperature = options.temperature == 0.0 ? 1.0 : options.temperature;
    EXPECT_NEAR(answer.log_probs[i],
                (logits[static_cast<int64_t>(i)] / temperature)
                    .log_softmax(0)[answer.ids[i]]
                    .item<double>(),
                bound);
  }
}

inline void ExpectSame(const Answers& a, const Answers& b, double bound) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t p = 0; p < a.size(); ++p) {
    ASSERT_EQ(a[p].size(), b[p].size());
    for (size_t i = 0; i < a[p].size(); ++i) {
      EXPECT_EQ(a[p][i].ids, b[p][i].ids) << "answer " << i << " to prompt " << p;
      EXPECT_EQ(a[p][i].stopped, b[p][i].stopped);
      EXPECT_EQ(a[p][i].mask, b[p][i].mask);
      EXPECT_EQ(a[p][i].turns, b[p][i].turns);
      ASSERT_EQ(a[p][i].log_probs.size(), b[p][i].log_probs.size());
      for (size_t t = 0; t < a[p][i].log_probs.size(); ++t)
        EXPECT_NEAR(a[p][i].log_probs[t], b[p][i].log_probs[t], bound);
    }
  }
}

}  // namespace moonring::model

#endif  // MOONRING_TESTS_MODEL_ROLLOUT_WHOLE_TEXTS_H_
