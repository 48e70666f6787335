// Sampled tokens compared with those that Transformers' logits processors keep
// (tests/golden/sampling), and with ChooseToken, which tests/model/sampler_test.cc compares with
// expected shares.

#include "model/token_choice.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

nlohmann::json Cases() {
  std::ifstream file("tests/golden/sampling/sampling.json");
  EXPECT_TRUE(file.good());
  return nlohmann::json::parse(file);
}

SamplingOptions OptionsOf(const nlohmann::json& golden) {
  const nlohmann::json& given = golden["options"];
  return {.temperature = given["temperature"],
          .top_k = given["top_k"],
          .top_p = given["top_p"],
          .min_p = given["min_p"],
          .repetition_penalty = given["repetition_penalty"],
          .seed = 3};
}

// The share of each id as the first token of `draws` answers to one prompt, and the returned
// log-probs.
struct Drawn {
  std::vector<double> shares, log_probs;
};
Drawn Draw(const at::Tensor& logits_V, const std::vector<int64_t>& ids,
           const SamplingOptions& options, int64_t draws) {
  std::vector<ChoiceOf> choices;
  for (int64_t i = 0; i < draws; ++i)
    choices.push_back({logits_V, ids, {}, 7, static_cast<uint64_t>(i)});
  Drawn drawn{std::vector<double>(logits_V.numel()), std::vector<double>(logits_V.numel())};
  for (const Choice& choice : ChooseTokens(choices, options)) {
    drawn.shares[choice.id] += 1.0 / static_cast<double>(draws);
    drawn.log_probs[choice.id] = choice.log_prob;
  }
  return drawn;
}

// The shares of tokens equal the probabilities after Transformers' processors, within four and a
// half standard deviations sqrt(p (1 - p) / n). A token that Transformers removes is never sampled.
TEST(TokenChoiceTest, KeepsWhatTransformersKeeps) {
  constexpr int64_t kDraws = 8000;
  for (const nlohmann::json& golden : Cases()) {
    SCOPED_TRACE(golden["options"].dump());
    const auto logits = golden["logits"].get<std::vector<double>>(),
               wanted = golden["probabilities"].get<std::vector<double>>(),
               log_probs = golden["log_probs"].get<std::vector<double>>();
    const auto ids = golden["ids"].get<std::vector<int64_t>>();
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const Drawn drawn =
          Draw(at::tensor(logits, at::kDouble).to(type), ids, OptionsOf(golden), kDraws);
      for (size_t id = 0; id < wanted.size(); ++id) {
        const double p = wanted[id];
        EXPECT_NEAR(drawn.shares[id], p, 1e-9 + 4.5 * std::sqrt(p * (1 - p) / kDraws))
            << "id " << id;
        if (drawn.shares[id] > 0) {
          EXPECT_NEAR(drawn.log_probs[id], log_probs[id], type == at::kDouble ? 1e-13 : 1e-6);
        }
      }
    }
  }
}

// ChooseToken has the same probabilities, measured by sampling with many seeds.
TEST(TokenChoiceTest, OneTextKeepsTheSame) {
  constexpr int kDraws = 4000;
  for (const nlohmann::json& golden : Cases()) {
    SCOPED_TRACE(golden["options"].dump());
    const auto wanted = golden["probabilities"].get<std::vector<double>>();
    const auto ids = golden["ids"].get<std::vector<int64_t>>();
    const at::Tensor logits = at::tensor(golden["logits"].get<std::vector<double>>(), at::kDouble);
    std::vector<double> shares(wanted.size());
    for (int i = 0; i < kDraws; ++i)
      shares[ChooseToken(logits, ids, OptionsOf(golden), i)] += 1.0 / kDraws;
    for (size_t id = 0; id < wanted.size(); ++id) {
      const double p = wanted[id];
      EXPECT_NEAR(shares[id], p, 1e-9 + 4.5 * std::sqrt(p * (1 - p) / kDraws)) << "id " << id;
    }
  }
}

// A large vocabulary: more and more tokens are sorted until they have enough probability for top_p.
TEST(TokenChoiceTest, SelectsAtLeastTheTopK) {
  at::manual_seed(2);
  const at::Tensor logits = at::randn({30000}, at::kDouble);
  const at::Tensor p = logits.softmax(0);
  const auto [sorted, order] = p.sort(0, /*descending=*/true);
  for (const double top_p : {0.001, 0.3, 0.9, 0.9999}) {
    for (const int64_t top_k : {0, 200, 5000}) {
      const int64_t most = top_k == 0 ? 30000 : top_k;
      const at::Tensor sums = sorted.narrow(0, 0, most).cumsum(0);
      const double wanted = top_p * sums[most - 1].item<double>();
      const int64_t kept = std::min(most, sums.lt(wanted).sum().item<int64_t>() + 1);
      const at::Tensor ids = std::get<0>(order.narrow(0, 0, kept).sort());
      const at::Tensor steps = p.index_select(0, ids).cumsum(0);
      // Expected: the first id at which the cumulative probability of the kept tokens exceeds the
      // random number.
      const SamplingOptions options{.temperature = 1.0, .top_k = top_k, .top_p = top_p, .seed = 8};
      const SamplingOptions all{.temperature = 1.0, .seed = 8};
      for (uint64_t answer = 0; answer < 12; ++answer) {
        const int64_t id = ChooseTokens({{logits, {}, {}, 1, answer}}, options)[0].id;
        // The random number is known up to a token's probability, from the token chosen from the
        // whole vocabulary.
        const int64_t whole = ChooseTokens({{logits, {}, {}, 1, answer}}, all)[0].id;
        const double above = p.narrow(0, 0, whole + 1).sum().item<double>(),
                     below = above - p[whole].item<double>();
        const double total = steps[kept - 1].item<double>();
        const int64_t first = steps.le(below * total - 1e-9).sum().item<int64_t>(),
                      last =
                          std::min(kept - 1, steps.le(above * total + 1e-9).sum().item<int64_t>());
        const int64_t place = ids.lt(id).sum().item<int64_t>();
        EXPECT_EQ(ids[place].item<int64_t>(), id) << "not kept: " << id;
        EXPECT_TRUE(first <= place && place <= last) << first << " " << place << " " << last;
      }
    }
  }
}

TEST(TokenChoiceTest, EachDrawHasItsOwnRandomNumbers) {
  at::manual_seed(4);
  const at::Tensor logits = at::randn({50});
  const SamplingOptions options{.temperature = 1.5, .seed = 6};
  const std::vector<int64_t> two = {1, 2};
  std::vector<ChoiceOf> choices;
  for (uint64_t key = 0; key < 5; ++key)
    for (uint64_t answer = 0; answer < 8; ++answer)
      choices.push_back({logits, {}, key % 2 == 0 ? two : std::vector<int64_t>(), key, answer});
  std::vector<std::vector<int64_t>> held(choices.size(), two);
  for (size_t i = 0; i < choices.size(); ++i)
    choices[i].new_ids = i % 3 == 0 ? absl::MakeConstSpan(held[i]) : absl::Span<const int64_t>();
  const std::vector<Choice> all = ChooseTokens(choices, options);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < choices.size(); ++i) {
    ids.push_back(all[i].id);
    EXPECT_EQ(ChooseTokens({choices[i]}, options)[0].id, all[i].id);
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_GT(std::unique(ids.begin(), ids.end()) - ids.begin(), 10);
  ChoiceOf other = choices[0];
  const auto differs = [&](const ChoiceOf& of, const SamplingOptions& how) {
    // One pair of answers may have the same id by chance, but not forty.
    int same = 0;
    for (uint64_t answer = 0; answer < 40; ++answer) {
      ChoiceOf a = choices[0], b = of;
      a.answer = answer;
      b.answer += answer;
      same += ChooseTokens({a}, options)[0].id == ChooseTokens({b}, how)[0].id;
    }
    return same < 20;
  };
  EXPECT_FALSE(differs({choices[0].logits_V, {}, choices[0].new_ids, choices[0].key, 0}, options));
  other.key = 9;
  EXPECT_TRUE(differs({other.logits_V, {}, other.new_ids, 9, 0}, options));
  EXPECT_TRUE(differs({other.logits_V, {}, other.new_ids, choices[0].key, 1}, options));
  EXPECT_TRUE(differs({other.logits_V, {}, {}, choices[0].key, 0}, options));
  SamplingOptions seeded = options;
  seeded.seed = 7;
  EXPECT_TRUE(differs({other.logits_V, {}, choices[0].new_ids, choices[0].key, 0}, seeded));
}

TEST(TokenChoiceTest, Greedy) {
  const at::Tensor logits = at::tensor({0.5f, 2.0f, 2.0f, -1.0f});
  const auto chosen = ChooseTokens({{logits, {}, {}, 0, 0}, {logits.neg(), {}, {}, 0, 0}}, {});
  EXPECT_EQ(chosen[0].id, 1);  // ties go to the first id
  EXPECT_EQ(chosen[1].id, 3);
  EXPECT_NEAR(chosen[0].log_prob, logits.to(at::kDouble).log_softmax(0)[1].item<double>(), 1e-6);
  const std::vector<int64_t> prompt = {1}, more = {2};
  const SamplingOptions penalised{.repetition_penalty = 5.0};
  EXPECT_EQ(ChooseTokens({{logits, prompt, more, 0, 0}}, penalised)[0].id, 0);
  EXPECT_TRUE(ChooseTokens({}, {}).empty());
}

TEST(TokenChoiceTest, ExcludedTokensAreNeverDrawn) {
  const double no = -std::numeric_limits<double>::infinity();
  const at::Tensor logits = at::tensor({no, 0.0, no, 0.0, no}, at::kDouble);
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 1.0}, SamplingOptions{.temperature = 1.0, .top_k = 4},
        SamplingOptions{.temperature = 1.0, .top_p = 0.9999}}) {
    const Drawn drawn = Draw(logits, {}, options, 200);
    EXPECT_NEAR(drawn.shares[1], 0.5, 0.16);
    EXPECT_NEAR(drawn.shares[1] + drawn.shares[3], 1.0, 1e-12);
  }
}

TEST(TokenChoiceTest, BadInput) {
  EXPECT_THROW(ChooseTokens({{at::tensor({0.0, std::nan("")}, at::kDouble), {}, {}, 0, 0}}, {}),
               c10::Error);
  EXPECT_THROW(ChooseTokens({{at::zeros({2, 2}), {}, {}, 0, 0}}, {}), c10::Error);
  EXPECT_THAT(Validate({.min_p = 1.5}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("min_p is 1.5, expected 0 (all) to 1")));
  EXPECT_THAT(Validate({.min_p = std::nan("")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("min_p")));
}

}  // namespace
}  // namespace moonring::model
