// Answers that are decoded in a batch, compared with forwards of each whole text alone, with
// attention from its definition; for every family of tests/golden/families.

#include "model/rollout/rollout.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "attention/strategy/strategies.h"
#include "comm/bin_exchange.h"
#include "comm/mesh.h"
#include "comm/process_groups.h"
#include "mixers/over_ranks/local_mixing.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/weights.h"
#include "model/sampler.h"
#include "nlohmann/json.hpp"
#include "tests/model/golden_families.h"
#include "tests/model/rollout/whole_texts.h"
#include "tests/model/small_config.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::GoldenFamilies;
using ::moonring::testing::kGoldenFamilies;
using ::moonring::testing::MaskedAttention;
using ::moonring::testing::ParsedConfig;
using ::moonring::testing::SmallJson;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

class RolloutOfFamilyTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RolloutOfFamilyTest, IsAForwardOfEachText) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(kGoldenFamilies + GetParam()));
  ASSERT_OK_AND_ASSIGN(
      const auto model,
      Transformer::Load(checkpoint, {.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble}));
  const ModelConfig& config = model->config();
  const bool turns_by_length = config.rotary_depends_on_length();
  at::manual_seed(21);
  std::vector<RolloutPrompt> prompts;
  for (const int64_t length : {3, 70, 1, 530, 64, 9}) {
    // Such a prompt is skipped: a cached key was rotated for the text's length at that time, which
    // differs from the final length.
    if (length + 8 > config.max_position_embeddings || (turns_by_length && length > 9)) continue;
    prompts.push_back({RandomIds(length, config.vocab_size), prompts.size() + 40});
  }
  RolloutOptions options{.sampling = {.max_new_tokens = 6, .temperature = 1.3, .seed = 5},
                         .answers = 3,
                         .sequences = 7};
  RolloutReport report;
  ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options, &report));
  EXPECT_EQ(report.blocks_left, 0);
  for (size_t p = 0; p < prompts.size(); ++p) {
    ASSERT_EQ(answers[p].size(), 3);
    for (size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(absl::StrCat("prompt ", p));
      ASSERT_EQ(answers[p][i].ids.size(), 6);
      ExpectAsWhole(*model, prompts[p], i, answers[p][i], options.sampling, 1e-11);
    }
  }
  options.sequences = 1;
  ASSERT_OK_AND_ASSIGN(const Answers one_by_one, Rollout(*model, prompts, options));
  ExpectSame(one_by_one, answers, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Models, RolloutOfFamilyTest, ::testing::ValuesIn(GoldenFamilies()),
                         [](const auto& info) { return info.param; });

TEST(RolloutTest, GreedyIsTheSamplers) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const auto model = SmallModel(type);
    const auto prompts = Prompts({5, 130, 1, 64, 700, 33});
    for (const double penalty : {1.0, 1.2}) {
      const SamplingOptions sampling{.max_new_tokens = 20, .repetition_penalty = penalty};
      ASSERT_OK_AND_ASSIGN(const Answers answers,
                           Rollout(*model, prompts, {.sampling = sampling, .sequences = 4}));
      Sampler sampler(*model);
      for (size_t p = 0; p < prompts.size(); ++p) {
        ASSERT_OK_AND_ASSIGN(const auto wanted, sampler.Generate(prompts[p].ids, sampling));
        EXPECT_EQ(answers[p][0].ids, wanted) << type << ", prompt " << p;
      }
    }
  }
}

// Answers do not depend on the other sequences of the batch. In fp64 no choice changes; in fp32 and
// bf16 no bit changes, if widths are multiples of the vector width.
TEST(RolloutTest, AnswersAreTheSameInAnyBatch) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 16; ++i) lengths.push_back(1 + i * 37 % 100);
  lengths[3] = 600;
  const std::vector<RolloutPrompt> prompts = Prompts(lengths);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(type);
    const double bound = type == at::kDouble ? 1e-11 : 0.0;
    const auto model = SmallModel(type, 2048, type,
                                  {{"hidden_size", 128},
                                   {"num_attention_heads", 2},
                                   {"num_key_value_heads", 1},
                                   {"head_dim", 64},
                                   {"intermediate_size", 96}});
    RolloutOptions options{
        .sampling = {.max_new_tokens = 24, .temperature = 0.9, .top_p = 0.95, .seed = 2},
        .answers = 2,
        .sequences = 16};
    ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options));
    for (const int64_t sequences : {1, 5, 80}) {
      options.sequences = sequences;
      ASSERT_OK_AND_ASSIGN(const Answers others, Rollout(*model, prompts, options));
      ExpectSame(others, answers, bound);
    }
    // The prompts in another order; each keeps its random key.
    const std::vector<RolloutPrompt> turned(prompts.rbegin(), prompts.rend());
    ASSERT_OK_AND_ASSIGN(Answers others, Rollout(*model, turned, options));
    std::reverse(others.begin(), others.end());
    ExpectSame(others, answers, bound);
  }
}

// A mixture of experts computes a product for the rows of each expert. In fp32, answers may
// therefore differ in another batch where two tokens are almost tied; such rows are counted.
TEST(RolloutTest, RowsOfExpertsThatDifferInFp32AreCounted) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(std::string(kGoldenFamilies) + "mixtral"));
  ASSERT_OK_AND_ASSIGN(const auto model, Transformer::Load(checkpoint, {}));
  std::vector<RolloutPrompt> prompts;
  at::manual_seed(5);
  for (int64_t i = 0; i < 16; ++i)
    prompts.push_back({RandomIds(1 + i * 7, model->config().vocab_size), prompts.size()});
  RolloutOptions options{.sampling = {.max_new_tokens = 24, .temperature = 1.0}, .sequences = 16};
  ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options));
  options.sequences = 1;
  ASSERT_OK_AND_ASSIGN(const Answers others, Rollout(*model, prompts, options));
  int differ = 0;
  for (size_t p = 0; p < prompts.size(); ++p) differ += others[p][0].ids != answers[p][0].ids;
  RecordProperty("differ_in_fp32", absl::StrCat(differ, " of ", prompts.size()));
  std::printf("fp32, experts: %d of %d answers differ\n", differ, static_cast<int>(prompts.size()));
  EXPECT_LT(differ, static_cast<int>(prompts.size()));
}

TEST(RolloutTest, EveryOptionIsAForwardsChoice) {
  const auto model = SmallModel(at::kDouble);
  const auto prompts = Prompts({40, 2});
  for (const SamplingOptions& sampling :
       {SamplingOptions{.max_new_tokens = 12, .temperature = 0.7},
        SamplingOptions{.max_new_tokens = 12, .temperature = 1.5, .top_k = 5},
        SamplingOptions{.max_new_tokens = 12, .temperature = 1.5, .top_p = 0.6},
        SamplingOptions{.max_new_tokens = 12, .temperature = 1.5, .min_p = 0.2},
        SamplingOptions{.max_new_tokens = 12,
        .temperature = 1.0,
        .top_k = 20,
        .top_p = 0.9,
        .min_p = 0.01,
        .repetition_penalty = 1.3,
        .seed = 77},
        SamplingOptions{.max_new_tokens = 12}}) {
    ASSERT_OK_AND_ASSIGN(const Answers answers,
                         Rollout(*model, prompts, {.sampling = sampling, .answers = 2}));
    for (size_t p = 0; p < prompts.size(); ++p) {
      for (size_t i = 0; i < 2; ++i)
        ExpectAsWhole(*model, prompts[p], i, answers[p][i], sampling, 1e-12);
    }
  }
}

TEST(RolloutTest, WhatEndsAnAnswer) {
  const auto model = SmallModel(at::kDouble, /*positions=*/20);
  const auto prompts = Prompts({7, 20, 3});
  RolloutOptions options{.sampling = {.max_new_tokens = 100, .temperature = 3.0}, .answers = 4};
  ASSERT_OK_AND_ASSIGN(const Answers all, Rollout(*model, prompts, options));
  for (const Answer& answer : all[0]) EXPECT_EQ(answer.ids.size(), 14);  // as with Sampler
  for (const Answer& answer : all[1]) EXPECT_EQ(answer.ids.size(), 1);
  options.sampling.stop_ids = {999, all[0][1].ids[3]};
  options.sequences = 3;
  ASSERT_OK_AND_ASSIGN(const Answers stopped, Rollout(*model, prompts, options));
  int64_t count = 0;
  for (size_t p = 0; p < prompts.size(); ++p) {
    for (size_t i = 0; i < 4; ++i) {
      const std::vector<int64_t>& ids = all[p][i].ids;
      const auto stop = std::find(ids.begin(), ids.end(), all[0][1].ids[3]);
      EXPECT_EQ(stopped[p][i].stopped, stop != ids.end());
      const auto end = stop == ids.end() ? stop : stop + 1;
      EXPECT_EQ(stopped[p][i].ids, std::vector<int64_t>(ids.begin(), end));
      count += stopped[p][i].stopped;
    }
  }
  EXPECT_GT(count, 0);
  options.sampling.max_new_tokens = 0;
  ASSERT_OK_AND_ASSIGN(const Answers none, Rollout(*model, prompts, options));
  ASSERT_EQ(none.size(), 3);
  for (const Answer& answer : none[2]) EXPECT_TRUE(answer.ids.empty() && !answer.stopped);
  ASSERT_OK_AND_ASSIGN(const Answers nobody, Rollout(*model, {}, options));
  EXPECT_TRUE(nobody.empty());
}

// A prompt's keys are stored once. A prompt of 200 tokens has three whole blocks, which all 8
// answers share, and one block with 8 tokens, of which each answer has a copy; the last answer uses
// the original.
TEST(RolloutTest, APromptIsKeptOnceAndAllIsFreed) {
  const auto model = SmallModel(at::kFloat);
  RolloutOptions options{.sampling = {.max_new_tokens = 5, .temperature = 1.0}, .answers = 8};
  RolloutReport report;
  ASSERT_OK(Rollout(*model, Prompts({200}), options, &report).status());
  EXPECT_EQ(report.most_blocks, 3 + 8);
  EXPECT_EQ(report.blocks_left, 0);
  // The prompt's rows are computed once, and give the first token of each answer.
  EXPECT_EQ(report.rows, 200 + 8 * 4);
  EXPECT_EQ(report.forwards, 1 + 4);
  // Expected bytes of the block pool: 2 kv heads of 8 + 8 features, 64 tokens, 3 layers.
  EXPECT_GE(report.cache_bytes, 11 * 64 * 2 * 16 * 4 * 3);
  EXPECT_LE(report.cache_bytes, 2 * 11 * 64 * 2 * 16 * 4 * 3);

  // Two answers run at a time. A finished one frees its blocks, so memory is only used for the
  // running ones.
  options.sequences = 2;
  ASSERT_OK(Rollout(*model, Prompts({200, 200, 200, 200}), options, &report).status());
  EXPECT_LE(report.most_blocks, 2 * (4 + 2));
  EXPECT_EQ(report.blocks_left, 0);

  // A prompt that consists of whole blocks needs no copy.
  options.sequences = 8;
  ASSERT_OK(Rollout(*model, Prompts({128}), options, &report).status());
  EXPECT_EQ(report.most_blocks, 2 + 8);
}

// If weights are cast for use, keeping the casts during a rollout gives the same answers, and later
// forwards do not use them.
TEST(RolloutTest, KeptCastsAreThoseOfEachForward) {
  const auto model = SmallModel(at::kFloat, 2048, at::kBFloat16);
  const auto prompts = Prompts({100, 5});
  RolloutOptions options{.sampling = {.max_new_tokens = 10, .temperature = 1.0}, .answers = 3};
  ASSERT_OK_AND_ASSIGN(const Answers kept, Rollout(*model, prompts, options));
  options.keep_casts = false;
  ASSERT_OK_AND_ASSIGN(const Answers cast, Rollout(*model, prompts, options));
  ExpectSame(kept, cast, 0.0);
  for (const auto& parameter : model->parameters()) {
    EXPECT_NE(parameter->Lease(at::kBFloat16).const_data_ptr(),
              parameter->Lease(at::kBFloat16).const_data_ptr());
    parameter->weight().mul_(1.5);
  }
  ASSERT_OK_AND_ASSIGN(const Answers changed, Rollout(*model, prompts, options));
  options.keep_casts = true;
  ASSERT_OK_AND_ASSIGN(const Answers changed_kept, Rollout(*model, prompts, options));
  ExpectSame(changed_kept, changed, 0.0);
  EXPECT_NE(changed[0][0].log_probs, kept[0][0].log_probs);
}

TEST(RolloutTest, AHookSeesEveryRowOnce) {
  const auto model = SmallModel(at::kDouble);
  int64_t rows = 0;
  RolloutOptions options{.sampling = {.max_new_tokens = 6, .temperature = 1.0}, .answers = 3};
  options.after = [&](int64_t layer, absl::string_view, const at::Tensor& hidden_TD) {
    if (layer == 1) rows += hidden_TD.size(0);
    return layer == 1 ? hidden_TD * 0.5 : at::Tensor();
  };
  RolloutReport report;
  const auto prompts = Prompts({90, 4});
  ASSERT_OK_AND_ASSIGN(const Answers halved, Rollout(*model, prompts, options, &report));
  EXPECT_EQ(rows, 94 + 2 * 3 * 5);
  EXPECT_EQ(report.rows, rows);
  Sampler sampler(*model, options.after);
  SamplingOptions greedy{.max_new_tokens = 6};
  ASSERT_OK_AND_ASSIGN(const Answers made,
                       Rollout(*model, prompts, {.sampling = greedy, .after = options.after}));
  EXPECT_EQ(made[0][0].ids, sampler.Generate(prompts[0].ids, greedy).value());
}

TEST(RolloutTest, BadInput) {
  const auto model = SmallModel(at::kFloat, /*positions=*/20);
  const auto status = [&](const std::vector<RolloutPrompt>& prompts,
                          const RolloutOptions& options) {
    return Rollout(*model, prompts, options).status();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(status({{{1}}, {{}}}, {}), StatusIs(invalid, HasSubstr("prompt 1: no tokens")));
  EXPECT_THAT(
      status({{{61}}}, {}),
      StatusIs(invalid, HasSubstr("rollout: prompt 0: token id 61, the vocabulary has 61")));
  EXPECT_THAT(status({{std::vector<int64_t>(21)}}, {}),
              StatusIs(invalid, HasSubstr("21 tokens, the model has positions for 20")));
  EXPECT_THAT(status({{{1}}}, {.answers = 0}), StatusIs(invalid, HasSubstr("answers is 0")));
  EXPECT_THAT(status({{{1}}}, {.sequences = 0}), StatusIs(invalid, HasSubstr("sequences is 0")));
  EXPECT_THAT(status({{{1}}}, {.sampling = {.temperature = -1.0}}),
              StatusIs(invalid, HasSubstr("temperature is -1")));
  model->head()->weight().fill_(std::nanf(""));
  EXPECT_THAT(status({{{1}}}, {}), StatusIs(absl::StatusCode::kInternal, HasSubstr("NaN")));
}

// Ranks that share every sequence: prompts run with a strategy, and each rank stores its part of
// the keys. The answers are those of one rank.
class SpreadRolloutTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SpreadRolloutTest, IsOneRanks) {
  const std::string folder = kGoldenFamilies + GetParam();
  const TransformerOptions in_fp64{.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble};
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder));
  ASSERT_OK_AND_ASSIGN(const auto whole, Transformer::Load(checkpoint, in_fp64));
  const ModelConfig& config = whole->config();
  at::manual_seed(41);
  std::vector<RolloutPrompt> prompts;
  for (const int64_t length : {3, 300, 1, 530}) {
    if (length + 8 > config.max_position_embeddings ||
        (config.rotary_depends_on_length() && length > 9))
      continue;
    prompts.push_back({RandomIds(length, config.vocab_size), prompts.size()});
  }
  RolloutOptions options{.sampling = {.max_new_tokens = 5, .temperature = 1.2, .top_p = 0.9},
                         .answers = 2,
                         .sequences = 6};
  ASSERT_OK_AND_ASSIGN(const Answers wanted, Rollout(*whole, prompts, options));
  testing::RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(const auto opened, Checkpoint::Open(folder));
    ASSERT_OK_AND_ASSIGN(const auto model, Transformer::Load(opened, in_fp64));
    ASSERT_OK_AND_ASSIGN(auto attention, attention::CreateAttention(
                                             {{.name = "zigzag-ring"}, world->communicator()}));
    RolloutOptions spread = options;
    spread.spread = SpreadSequences{world->communicator(), std::move(attention)};
    RolloutReport report;
    ASSERT_OK_AND_ASSIGN(const Answers made, Rollout(*model, prompts, spread, &report));
    ExpectSame(made, wanted, 1e-10);
    EXPECT_EQ(report.blocks_left, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Models, SpreadRolloutTest, ::testing::ValuesIn(GoldenFamilies()),
                         [](const auto& info) { return info.param; });

// Each rank stores only its share of a prompt's keys, on three ranks and with a two-dimensional
// strategy.
TEST(RolloutTest, KeysOfALongPromptAreSpreadOverAllRanks) {
  const auto prompts = Prompts({1500});
  // Enough new tokens to cross two boundaries between ranks.
  RolloutOptions options{.sampling = {.max_new_tokens = 110, .temperature = 1.0}, .answers = 3};
  RolloutReport alone;
  ASSERT_OK_AND_ASSIGN(const Answers wanted,
                       Rollout(*SmallModel(at::kDouble), prompts, options, &alone));
  EXPECT_EQ(alone.most_blocks, 23 + 3 * 3);
  for (const int ranks : {2, 3, 4}) {
    std::vector<std::unique_ptr<Transformer>> models;  // share a random generator
    for (int rank = 0; rank < ranks; ++rank) models.push_back(SmallModel(at::kDouble));
    testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
      const auto& model = models[world->rank()];
      ASSERT_OK_AND_ASSIGN(auto attention,
                           attention::CreateAttention({{.name = ranks == 2   ? "ulysses"
                                                                : ranks == 3 ? "ring"
                                                                             : "usp"},
                                                       world->communicator()}));
      RolloutOptions spread = options;
      spread.spread = SpreadSequences{world->communicator(), std::move(attention)};
      RolloutReport report;
      ASSERT_OK_AND_ASSIGN(const Answers made, Rollout(*model, prompts, spread, &report));
      ExpectSame(made, wanted, 1e-11);
      // 1500 / P tokens, with some partly filled blocks, and the blocks of 3 answers.
      EXPECT_LE(report.most_blocks, 1500 / 64 / ranks + 3 + 3 * 3) << ranks;
      // Prompts that differ between ranks are rejected on all ranks.
      std::vector<RolloutPrompt> other = prompts;
      other[0].ids[700] = world->rank() == 0 ? 1 : 2;
      EXPECT_THAT(Rollout(*model, other, spread).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("were given other prompts or options")));
    });
  }
}

// Ranks with different numbers of prompts share the experts of every layer; each gives the same
// answers as a rank with all experts.
TEST(RolloutTest, RanksThatShareExpertsRunTogether) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(std::string(kGoldenFamilies) + "mixtral"));
  const TransformerOptions in_fp64{.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble};
  ASSERT_OK_AND_ASSIGN(const auto whole, Transformer::Load(checkpoint, in_fp64));
  const int64_t vocabulary = whole->config().vocab_size;
  at::manual_seed(31);
  std::vector<RolloutPrompt> prompts;
  for (const int64_t length : {5, 40, 9}) {
    prompts.push_back({RandomIds(length, vocabulary), prompts.size()});
  }
  RolloutOptions options{.sampling = {.max_new_tokens = 7, .temperature = 1.0}, .answers = 2};
  ASSERT_OK_AND_ASSIGN(const Answers wanted, Rollout(*whole, prompts, options));
  testing::RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(const auto opened,
                         Checkpoint::Open(std::string(kGoldenFamilies) + "mixtral"));
    TransformerOptions shared = in_fp64;
    shared.expert_ranks = std::make_shared<const comm::BinExchange>(
        world->communicator(), comm::BinParts(whole->config().experts.count, 2));
    ASSERT_OK_AND_ASSIGN(const auto model, Transformer::Load(opened, shared));
    // The first rank has two prompts; the second has one, with fewer new tokens.
    const bool first = world->rank() == 0;
    const std::vector<RolloutPrompt> mine = first
                                                ? std::vector<RolloutPrompt>{prompts[0], prompts[1]}
                                                : std::vector<RolloutPrompt>{prompts[2]};
    RolloutOptions together = options;
    EXPECT_THAT(Rollout(*model, mine, together).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected lockstep")));
    together.lockstep = world->communicator();
    together.sequences = first ? 1 : 8;
    ASSERT_OK_AND_ASSIGN(const Answers made, Rollout(*model, mine, together));
    const Answers own = first ? Answers{wanted[0], wanted[1]} : Answers{wanted[2]};
    ExpectSame(made, own, 1e-11);
    // A rank without prompts takes part too.
    ASSERT_OK_AND_ASSIGN(const Answers some,
                         Rollout(*model, first ? mine : std::vector<RolloutPrompt>(), together));
    ExpectSame(some, first ? own : Answers(), 1e-11);
    // An error on one rank is an error on all ranks.
    const absl::Status failed =
        Rollout(*model, first ? mine : std::vector<RolloutPrompt>{{{}}}, together).status();
    EXPECT_THAT(failed, first
                            ? StatusIs(absl::StatusCode::kAborted, HasSubstr("1 rank"))
                            : StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no tokens")));
  });
}

}  // namespace
}  // namespace moonring::model
