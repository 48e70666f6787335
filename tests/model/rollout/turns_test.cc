// Answers of several turns, and hooks on logits: compared with forwards of each whole text, in any
// batch and on several ranks.

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "attention/strategy/strategies.h"
#include "base/status/torch_status.h"
#include "model/checkpoint/checkpoint.h"
#include "model/rollout/rollout.h"
#include "model/sampler.h"
#include "tests/model/golden_families.h"
#include "tests/model/rollout/whole_texts.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::GoldenFamilies;
using ::moonring::testing::kGoldenFamilies;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr double kNever = -std::numeric_limits<double>::infinity();

// A tool whose results depend on the answer only. `lengths`: of the results after each turn.
auto Tool(std::vector<int64_t> lengths, int64_t vocabulary) {
  return [=](const OpenAnswer& answer) -> std::optional<std::vector<int64_t>> {
    if (answer.turn >= static_cast<int64_t>(lengths.size())) return std::nullopt;
    std::vector<int64_t> given;
    for (int64_t i = 0; i < lengths[answer.turn]; ++i)
      given.push_back((answer.ids.back() + 7 * i + answer.answer) % vocabulary);
    return given;
  };
}

bool AfterThree(absl::Span<const int64_t> ids) { return ids.size() == 3; }

RolloutOptions WithTool(std::vector<int64_t> lengths, int64_t vocabulary = 61) {
  return {.sampling = {.max_new_tokens = 1000, .temperature = 1.3, .seed = 5},
          .answers = 2,
          .sequences = 5,
          .ends_turn = &AfterThree,
          .next_turn = Tool(std::move(lengths), vocabulary)};
}

class TurnsOfFamilyTest : public ::testing::TestWithParam<std::string> {};

// Each sampled token and its log-prob are those of a forward of the whole text from scratch:
// nothing is lost or computed twice in the caches (keys, values and recurrent states).
TEST_P(TurnsOfFamilyTest, AreAForwardOfEachText) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(kGoldenFamilies + GetParam()));
  ASSERT_OK_AND_ASSIGN(
      const auto model,
      Transformer::Load(checkpoint, {.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble}));
  const ModelConfig& config = model->config();
  const bool by_length = config.rotary_depends_on_length();
  const std::vector<int64_t> lengths =
      by_length ? std::vector<int64_t>{0} : std::vector<int64_t>{5, 0, 70};
  at::manual_seed(21);
  std::vector<RolloutPrompt> prompts;
  for (const int64_t length : {3, 66, 1}) {
    if (length + 100 > config.max_position_embeddings || (by_length && length > 3)) continue;
    prompts.push_back({RandomIds(length, config.vocab_size), prompts.size() + 40});
  }
  const RolloutOptions options = WithTool(lengths, config.vocab_size);
  RolloutReport report;
  ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options, &report));
  EXPECT_EQ(report.blocks_left, 0);
  for (size_t p = 0; p < prompts.size(); ++p) {
    for (size_t i = 0; i < 2; ++i) {
      SCOPED_TRACE(absl::StrCat("prompt ", p));
      const Answer& answer = answers[p][i];
      EXPECT_TRUE(answer.stopped);
      EXPECT_EQ(answer.turns, static_cast<int64_t>(lengths.size()) + 1);
      EXPECT_EQ(std::count(answer.mask.begin(), answer.mask.end(), 1), 3 * answer.turns);
      ExpectAsWhole(*model, prompts[p], i, answer, options.sampling, 1e-11);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TurnsOfFamilyTest, ::testing::ValuesIn(GoldenFamilies()),
                         [](const auto& info) { return info.param; });

// Only the given tokens are computed: each token of the texts is a row once, except the last one of
// each answer. A long text is computed in pieces of 512 rows.
TEST(TurnsTest, KeepTheCache) {
  const auto model = SmallModel(at::kFloat);
  const RolloutOptions options = WithTool({10, 600});
  RolloutReport report;
  ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, Prompts({200}), options, &report));
  EXPECT_EQ(answers[0][0].ids.size(), 3 + 10 + 3 + 600 + 3);
  EXPECT_EQ(report.rows, 200 + 2 * (3 + 10 + 3 + 600 + 3 - 1));
  // The prompt; tokens 2 and 3; the text of 10, for both answers; tokens 5 and 6; the text of 600
  // in two pieces per answer. The second answer is one step later then: tokens 8 and 9 in 3
  // forwards.
  EXPECT_EQ(report.forwards, 1 + 2 + 1 + 2 + 2 * 2 + 3);
  EXPECT_EQ(report.blocks_left, 0);
}

TEST(TurnsTest, AreTheSameInAnyBatch) {
  const std::vector<RolloutPrompt> prompts = Prompts({1, 40, 90, 300, 7, 64});
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(type);
    const double bound = type == at::kDouble ? 1e-11 : 0.0;
    const auto model = SmallModel(type, 2048, type,
                                  {{"hidden_size", 128},
                                   {"num_attention_heads", 2},
                                   {"num_key_value_heads", 1},
                                   {"head_dim", 64},
                                   {"intermediate_size", 96}});
    RolloutOptions options = WithTool({9, 100, 2});
    options.sequences = 12;
    ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options));
    for (const int64_t sequences : {1, 5}) {
      options.sequences = sequences;
      ASSERT_OK_AND_ASSIGN(const Answers others, Rollout(*model, prompts, options));
      ExpectSame(others, answers, bound);
    }
  }
}

TEST(TurnsTest, WhatEndsAnAnswer) {
  const auto model = SmallModel(at::kDouble, /*positions=*/40);
  const auto prompts = Prompts({4});
  RolloutOptions options = WithTool({5, 5, 5});
  options.answers = 1;
  const auto ended = [&](int64_t tokens, bool stopped, int64_t turns) {
    ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options));
    EXPECT_EQ(static_cast<int64_t>(answers[0][0].ids.size()), tokens);
    EXPECT_EQ(answers[0][0].stopped, stopped);
    EXPECT_EQ(answers[0][0].turns, turns);
    EXPECT_EQ(answers[0][0].mask.back(), 1);  // given tokens are never the last ones
  };
  ended(4 * 3 + 3 * 5, true, 4);
  options.max_turns = 2;
  ended(2 * 3 + 5, true, 2);
  options.max_turns = 0;
  options.sampling.max_new_tokens = 9;  // one more token after the first result
  ended(9, false, 2);
  options.sampling.max_new_tokens = 8;  // no room for another token
  ended(3, false, 1);
  options.sampling.max_new_tokens = 3;
  ended(3, false, 1);
  options.next_turn = Tool({}, 61);  // the tool has nothing to add
  ended(3, true, 1);
  options.sampling.max_new_tokens = 1000;
  options.next_turn = Tool({34}, 61);  // 4 + 3 + 34 tokens need 41 positions
  ended(3, false, 1);
  options.next_turn = Tool({33}, 61);
  ended(3 + 33 + 1, false, 2);
  // A stop id ends a turn too.
  options.ends_turn = nullptr;
  options.next_turn = Tool({2}, 61);
  options.sampling.max_new_tokens = 20;
  ASSERT_OK_AND_ASSIGN(const Answers free, Rollout(*model, prompts, options));
  options.sampling.stop_ids = {free[0][0].ids[4]};
  ASSERT_OK_AND_ASSIGN(const Answers stopped, Rollout(*model, prompts, options));
  const auto& mask = stopped[0][0].mask;
  const auto first = std::find(mask.begin(), mask.end(), 0) - mask.begin();
  EXPECT_EQ(stopped[0][0].ids[first - 1], options.sampling.stop_ids[0]);

  options.next_turn = [](const OpenAnswer&) { return std::vector<int64_t>{61}; };
  EXPECT_THAT(Rollout(*model, prompts, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("prompt 1, answer 1: token id 61, the vocabulary has 61")));
  options.next_turn = nullptr;
  options.max_turns = 3;
  EXPECT_THAT(Rollout(*model, prompts, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_turns is 3 without")));
}

// Bans ids by their position in the answer, so that the result depends on the state of each row.
at::Tensor Ban(const at::Tensor& logits_BV, absl::Span<const OpenAnswer> answers) {
  for (size_t row = 0; row < answers.size(); ++row) {
    const auto first = static_cast<int64_t>(answers[row].ids.size() + answers[row].key) % 3;
    logits_BV.select(0, static_cast<int64_t>(row)).slice(0, first, std::nullopt, 3).fill_(kNever);
  }
  return logits_BV;
}

TEST(LogitsHookTest, ChoosesFromItsLogitsWithLogProbsOfTheModels) {
  const auto model = SmallModel(at::kDouble);
  const auto prompts = Prompts({5, 90});
  for (const double temperature : {0.0, 1.4}) {
    for (const double penalty : {1.0, 1.3}) {
      RolloutOptions options = WithTool({4, 80});
      options.sampling.temperature = temperature;
      options.sampling.repetition_penalty = penalty;
      options.logits = &Ban;
      ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options));
      for (size_t p = 0; p < 2; ++p) {
        for (size_t a = 0; a < 2; ++a) {
          const Answer& answer = answers[p][a];
          std::vector<int64_t> text = prompts[p].ids;
          text.insert(text.end(), answer.ids.begin(), answer.ids.end() - 1);
          const at::Tensor logits =
              LogitsOf(*model, text, static_cast<int64_t>(prompts[p].ids.size()) - 1);
          for (size_t i = 0; i < answer.ids.size(); ++i) {
            if (answer.mask[i] == 0) continue;
            const at::Tensor raw = logits[static_cast<int64_t>(i)];
            const int64_t banned = static_cast<int64_t>(i + prompts[p].key) % 3;
            EXPECT_NE(answer.ids[i] % 3, banned);
            // The choice without a hook from logits in which the ids have no weight.
            at::Tensor left = raw.clone();
            left.slice(0, banned, std::nullopt, 3).fill_(-1e30);
            EXPECT_EQ(answer.ids[i], ChooseTokens({{left, prompts[p].ids,
                                                    absl::MakeConstSpan(answer.ids).subspan(0, i),
                                                    prompts[p].key, a}},
                                                  options.sampling)[0]
                                         .id);
            EXPECT_NEAR(answer.log_probs[i],
                        (raw / (temperature == 0.0 ? 1.0 : temperature))
                            .log_softmax(0)[answer.ids[i]]
                            .item<double>(),
                        1e-11);
          }
        }
      }
    }
  }
}

TEST(LogitsHookTest, IsTheSamplersToo) {
  const auto model = SmallModel(at::kDouble);
  const auto prompts = Prompts({9});
  const SamplingOptions sampling{.max_new_tokens = 12};
  ASSERT_OK_AND_ASSIGN(const Answers answers,
                       Rollout(*model, prompts, {.sampling = sampling, .logits = &Ban}));
  Sampler sampler(*model, nullptr, &Ban);
  ASSERT_OK_AND_ASSIGN(const auto ids, sampler.Generate(prompts[0].ids, sampling));
  EXPECT_EQ(ids, answers[0][0].ids);
  Sampler plain(*model);
  ASSERT_OK_AND_ASSIGN(const auto others, plain.Generate(prompts[0].ids, sampling));
  EXPECT_NE(ids, others);
  // A drawn token is never a banned one, also if it is the only one that is left.
  Sampler one(*model, nullptr, [](const at::Tensor& logits, absl::Span<const OpenAnswer>) {
    const at::Tensor only = at::full_like(logits, kNever);
    only.select(1, 17).fill_(0.0);
    return only;
  });
  ASSERT_OK_AND_ASSIGN(const auto same,
                       one.Generate(prompts[0].ids, {.max_new_tokens = 5, .temperature = 1.0}));
  EXPECT_EQ(same, std::vector<int64_t>(5, 17));
}

TEST(LogitsHookTest, WrongResultsAreRefusedByName) {
  const auto model = SmallModel(at::kFloat);
  const auto prompts = Prompts({5, 6});
  const auto expect = [&](auto change, const std::string& words) {
    RolloutOptions options{.sampling = {.max_new_tokens = 3}};
    options.logits = [&](const at::Tensor& logits, absl::Span<const OpenAnswer>) {
      return change(logits);
    };
    EXPECT_THAT(Rollout(*model, prompts, options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  expect([](const at::Tensor& x) { return x.narrow(1, 0, 60); },
         "the hook's result is [2, 60] of Float on cpu, expected [2, 61] of Float on cpu");
  expect([](const at::Tensor& x) { return x.to(at::kDouble); }, "[2, 61] of Double");
  expect([](const at::Tensor&) { return at::Tensor(); }, "no tensor");
  expect([](const at::Tensor& x) { return x.select(0, 1).fill_(kNever), x; },
         "prompt 2, answer 1, token 0: the hook's result is -inf for every id");
  expect([](const at::Tensor& x) { return x.select(1, 3).fill_(std::nan("")), x; },
         "prompt 1, answer 1, token 0: the hook's result has a NaN");
  expect([](const at::Tensor& x) { return x.select(1, 3).fill_(-kNever), x; }, "an infinite logit");
}

// Ranks that share sequences: the functions run on the first rank only, and the answers are those
// of one rank. If a function fails, all ranks fail.
TEST(TurnsTest, OnRanksThatShareSequences) {
  const auto prompts = Prompts({3, 300, 70});
  RolloutOptions options = WithTool({5, 130, 0});
  options.logits = &Ban;
  ASSERT_OK_AND_ASSIGN(const Answers wanted, Rollout(*SmallModel(at::kDouble), prompts, options));
  std::vector<std::unique_ptr<Transformer>> models;  // share a random generator
  for (int rank = 0; rank < 2; ++rank) models.push_back(SmallModel(at::kDouble));
  testing::RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    const auto& model = models[world->rank()];
    const bool first = world->rank() == 0;
    ASSERT_OK_AND_ASSIGN(auto attention, attention::CreateAttention(
                                             {{.name = "zigzag-ring"}, world->communicator()}));
    int calls = 0;
    RolloutOptions spread = options;
    spread.spread = SpreadSequences{world->communicator(), std::move(attention)};
    spread.next_turn = [&, tool = options.next_turn](const OpenAnswer& answer) {
      ++calls;
      return tool(answer);
    };
    RolloutReport report;
    ASSERT_OK_AND_ASSIGN(const Answers made, Rollout(*model, prompts, spread, &report));
    ExpectSame(made, wanted, 1e-10);
    EXPECT_EQ(report.blocks_left, 0);
    EXPECT_EQ(calls, first ? 3 * 2 * 4 : 0);
    // The first rank's error is told to the others.
    spread.next_turn = [](const OpenAnswer&) -> std::optional<std::vector<int64_t>> {
      throw base::StatusError(absl::NotFoundError("no such tool"));
    };
    EXPECT_THAT(Rollout(*model, prompts, spread).status(),
                first ? StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such tool"))
                      : StatusIs(absl::StatusCode::kAborted, HasSubstr("the first of the ranks")));
    if (first) spread.next_turn = nullptr;
    EXPECT_THAT(Rollout(*model, prompts, spread).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("were given other prompts or options")));
  });
}

// Ranks in lockstep run as many forwards as the one that needs most, and all fail if one fails.
TEST(TurnsTest, InLockstep) {
  const std::vector<RolloutPrompt> prompts = Prompts({3, 300, 70});
  RolloutOptions options = WithTool({5, 600, 0});
  ASSERT_OK_AND_ASSIGN(const Answers wanted, Rollout(*SmallModel(at::kDouble), prompts, options));
  std::vector<std::unique_ptr<Transformer>> models;
  for (int rank = 0; rank < 2; ++rank) models.push_back(SmallModel(at::kDouble));
  testing::RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    const bool first = world->rank() == 0;
    RolloutOptions together = options;
    together.lockstep = world->communicator();
    const auto mine = absl::MakeConstSpan(prompts).subspan(first ? 0 : 3);  // none on rank 1
    RolloutReport report;
    ASSERT_OK_AND_ASSIGN(const Answers made,
                         Rollout(*models[world->rank()], mine, together, &report));
    if (first) ExpectSame(made, wanted, 1e-11);
    at::Tensor most = at::full({2}, report.forwards, at::kLong);
    most[1].neg_();
    ASSERT_OK(world->communicator()->AllReduceMax(most));
    EXPECT_EQ(most[0].item<int64_t>(), -most[1].item<int64_t>());
    together.next_turn = [](const OpenAnswer&) -> std::optional<std::vector<int64_t>> {
      throw base::StatusError(absl::NotFoundError("no such tool"));
    };
    EXPECT_THAT(Rollout(*models[world->rank()], mine, together).status(),
                first ? StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such tool"))
                      : StatusIs(absl::StatusCode::kAborted, HasSubstr("their logs say why")));
  });
}

}  // namespace
}  // namespace moonring::model
