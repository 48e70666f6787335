// Prompts with options of their own, prompts that arrive while others are decoded, tokens as they
// come, and cancelled answers: every answer is the one that its prompt gets alone.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "attention/strategy/strategies.h"
#include "model/rollout/first_tokens.h"
#include "model/rollout/rollout.h"
#include "tests/model/rollout/whole_texts.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

// A model whose answers have the same bits in any batch (rollout.h).
std::unique_ptr<Transformer> ExactModel(at::ScalarType type) {
  return SmallModel(type, 2048, type,
                    {{"hidden_size", 128},
                     {"num_attention_heads", 2},
                     {"num_key_value_heads", 1},
                     {"head_dim", 64},
                     {"intermediate_size", 96}});
}

bool AfterFive(absl::Span<const int64_t> ids) { return ids.size() == 5; }

// Prompts that differ in everything that a prompt may set.
std::vector<RolloutPrompt> MixedPrompts() {
  std::vector<RolloutPrompt> prompts = Prompts({5, 130, 1, 64, 300, 33, 2});
  prompts[0].sampling = {.max_new_tokens = 12, .temperature = 0.7};
  prompts[1].sampling = {.max_new_tokens = 20, .temperature = 1.5, .top_k = 5, .seed = 3};
  prompts[1].answers = 3;
  prompts[2].sampling = {.max_new_tokens = 9, .temperature = 1.5, .top_p = 0.6};
  prompts[3].sampling = {.max_new_tokens = 15, .temperature = 0.0, .repetition_penalty = 1.4};
  prompts[3].top = 4;
  prompts[4].sampling = {.max_new_tokens = 0};
  prompts[5].sampling = {.max_new_tokens = 30, .temperature = 1.2, .min_p = 0.05};
  prompts[5].sampling->stop_ids = {7, 8, 9, 10};
  prompts[5].answers = 2;
  prompts[6].ends_turn = &AfterFive;  // with the options of the call
  return prompts;
}

RolloutOptions CallOptions() {
  return {.sampling = {.max_new_tokens = 17, .temperature = 0.9, .seed = 11}, .sequences = 6};
}

Answers Alone(Transformer& model, const std::vector<RolloutPrompt>& prompts,
              const RolloutOptions& options) {
  Answers alone;
  for (const RolloutPrompt& prompt : prompts)
    alone.push_back(Rollout(model, {&prompt, 1}, options).value()[0]);
  return alone;
}

void ExpectSameTop(const Answers& a, const Answers& b) {
  for (size_t p = 0; p < a.size(); ++p) {
    for (size_t i = 0; i < a[p].size(); ++i) {
      ASSERT_EQ(a[p][i].top.size(), b[p][i].top.size());
      for (size_t t = 0; t < a[p][i].top.size(); ++t) {
        ASSERT_EQ(a[p][i].top[t].size(), b[p][i].top[t].size());
        for (size_t k = 0; k < a[p][i].top[t].size(); ++k) {
          EXPECT_EQ(a[p][i].top[t][k].id, b[p][i].top[t][k].id);
          EXPECT_EQ(a[p][i].top[t][k].log_prob, b[p][i].top[t][k].log_prob);
        }
      }
    }
  }
}

// Each prompt's answers are those of a call with its options alone, and of forwards of each text.
TEST(ArrivalsTest, PromptsWithTheirOwnOptionsAreDecodedTogether) {
  const RolloutOptions options = CallOptions();
  const std::vector<RolloutPrompt> prompts = MixedPrompts();
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(type);
    const auto model = ExactModel(type);
    ASSERT_OK_AND_ASSIGN(const Answers together, Rollout(*model, prompts, options));
    const Answers alone = Alone(*model, prompts, options);
    ExpectSame(together, alone, type == at::kDouble ? 1e-11 : 0.0);
    if (type != at::kDouble) {
      ExpectSameTop(together, alone);
      continue;
    }
    for (size_t p = 0; p < prompts.size(); ++p) {
      const SamplingOptions& sampling = SamplingOf(prompts[p], options);
      ASSERT_EQ(static_cast<int64_t>(together[p].size()), AnswersOf(prompts[p], options));
      for (size_t i = 0; i < together[p].size(); ++i) {
        if (sampling.max_new_tokens == 0) {
          EXPECT_TRUE(together[p][i].ids.empty());
        } else {
          ExpectAsWhole(*model, prompts[p], i, together[p][i], sampling, 1e-11);
        }
      }
    }
    EXPECT_EQ(together[6][0].ids.size(), 5u);
    EXPECT_TRUE(together[6][0].stopped);
  }
}

// The likeliest ids are those of the logits of the whole text, and the chosen id has one number.
TEST(ArrivalsTest, TheLikeliestIdsAreThoseOfTheLogits) {
  const auto model = SmallModel(at::kDouble);
  std::vector<RolloutPrompt> prompts = Prompts({9});
  prompts[0].top = 6;
  const double temperature = 0.6;
  RolloutOptions options{.sampling = {.max_new_tokens = 8, .temperature = temperature}};
  ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options));
  const Answer& answer = answers[0][0];
  std::vector<int64_t> text = prompts[0].ids;
  text.insert(text.end(), answer.ids.begin(), answer.ids.end() - 1);
  const at::Tensor logits = LogitsOf(*model, text, 8);
  ASSERT_EQ(answer.top.size(), answer.ids.size());
  int64_t among = 0;
  for (size_t t = 0; t < answer.top.size(); ++t) {
    const auto [values, ids] =
        (logits[static_cast<int64_t>(t)] / temperature).log_softmax(0).topk(6);
    ASSERT_EQ(answer.top[t].size(), 6u);
    for (int64_t k = 0; k < 6; ++k) {
      const IdLogProb& likely = answer.top[t][k];
      EXPECT_EQ(likely.id, ids[k].item<int64_t>());
      EXPECT_NEAR(likely.log_prob, values[k].item<double>(), 1e-11);
      if (likely.id != answer.ids[t]) continue;
      EXPECT_EQ(likely.log_prob, answer.log_probs[t]);
      ++among;
    }
  }
  EXPECT_GT(among, 0);
  // More ids than the vocabulary has: all of them.
  prompts[0].top = 1000;
  ASSERT_OK_AND_ASSIGN(const Answers all, Rollout(*model, prompts, options));
  EXPECT_EQ(all[0][0].top[0].size(), 61u);
}

// Brings prompts one by one, each after a number of forwards.
struct Bringer {
  std::vector<RolloutPrompt> prompts;
  int64_t pause = 0, calls = 0;
  size_t next = 0;
  std::vector<RolloutPrompt> operator()() {
    if (calls++ % (pause + 1) != pause || next == prompts.size()) return {};
    return {prompts[next++]};
  }
};

TEST(ArrivalsTest, APromptThatArrivesGetsTheAnswersThatItGetsAlone) {
  const std::vector<RolloutPrompt> prompts = MixedPrompts();
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    SCOPED_TRACE(type);
    const auto model = ExactModel(type);
    const Answers alone = Alone(*model, prompts, CallOptions());
    for (const int64_t pause : {0, 1, 2, 7}) {
      for (const int64_t sequences : {1, 3, 20}) {
        SCOPED_TRACE(absl::StrCat(pause, " forwards between arrivals, sequences ", sequences));
        RolloutOptions options = CallOptions();
        options.sequences = sequences;
        Bringer bringer{{prompts.begin() + 2, prompts.end()}, pause};
        options.arrivals = std::ref(bringer);
        RolloutReport report;
        ASSERT_OK_AND_ASSIGN(
            const Answers answers,
            Rollout(*model, absl::MakeConstSpan(prompts).subspan(0, 2), options, &report));
        // With long pauses, the work may end before all have arrived; the first ones are there.
        ASSERT_LE(answers.size(), alone.size());
        ASSERT_EQ(answers.size(), 2 + bringer.next);
        if (pause < 7) { ASSERT_EQ(answers.size(), alone.size()); }
        ExpectSame(answers, {alone.begin(), alone.begin() + answers.size()},
                   type == at::kDouble ? 1e-11 : 0.0);
        EXPECT_EQ(report.blocks_left, 0);
      }
    }
  }
}

// A rollout may begin without prompts, and ends at once if none arrives.
TEST(ArrivalsTest, ARolloutMayBeginEmpty) {
  const auto model = SmallModel(at::kFloat);
  const auto prompts = Prompts({5, 70});
  RolloutOptions options = CallOptions();
  ASSERT_OK_AND_ASSIGN(const Answers wanted, Rollout(*model, prompts, options));
  Bringer bringer{prompts};
  options.arrivals = std::ref(bringer);
  ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, {}, options));
  ExpectSame(answers, wanted, 1e-5);
  options.arrivals = [] { return std::vector<RolloutPrompt>(); };
  ASSERT_OK_AND_ASSIGN(const Answers none, Rollout(*model, {}, options));
  EXPECT_TRUE(none.empty());
  options.arrivals = [calls = 0]() mutable -> std::vector<RolloutPrompt> {
    if (calls++ < 2) return {};
    return {{{1}}, {{61}}};
  };
  EXPECT_THAT(Rollout(*model, prompts, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("arrivals: prompt 1: token id 61, the vocabulary has 61")));
}

// Collects what on_token and on_answer get. Cancels the answers of some prompts after some tokens.
struct Watcher {
  std::map<std::pair<int64_t, int64_t>, Answer> tokens, ended;
  std::map<int64_t, size_t> cancel;  // by prompt: the number of tokens

  void AddTo(RolloutOptions& options) {
    options.on_token = [this](const OpenAnswer& answer, const Choice& choice) {
      Answer& seen = tokens[{answer.prompt, answer.answer}];
      EXPECT_EQ(seen.ids, std::vector<int64_t>(answer.ids.begin(), answer.ids.end()));
      seen.ids.push_back(choice.id);
      seen.log_probs.push_back(choice.log_prob);
      const auto at = cancel.find(answer.prompt);
      return at == cancel.end() || seen.ids.size() < at->second;
    };
    options.on_answer = [this](int64_t prompt, int64_t number, const Answer& answer) {
      EXPECT_TRUE(ended.try_emplace({prompt, number}, answer).second) << "ended twice";
    };
  }
};

TEST(ArrivalsTest, TokensComeAsTheyAreAndCancelledAnswersChangeNoOther) {
  const std::vector<RolloutPrompt> prompts = MixedPrompts();
  const auto model = ExactModel(at::kFloat);
  const Answers alone = Alone(*model, prompts, CallOptions());
  for (const auto& cancel : {std::map<int64_t, size_t>(), std::map<int64_t, size_t>{{1, 1}, {3, 6}},
                             std::map<int64_t, size_t>{{0, 2}, {2, 3}, {5, 4}, {6, 1}}}) {
    for (const int64_t sequences : {1, 4, 20}) {
      Watcher watcher{.cancel = cancel};
      RolloutOptions options = CallOptions();
      options.sequences = sequences;
      watcher.AddTo(options);
      RolloutReport report;
      ASSERT_OK_AND_ASSIGN(const Answers answers, Rollout(*model, prompts, options, &report));
      EXPECT_EQ(report.blocks_left, 0);
      for (size_t p = 0; p < prompts.size(); ++p) {
        const auto at = cancel.find(static_cast<int64_t>(p));
        for (size_t i = 0; i < answers[p].size(); ++i) {
          const std::pair<int64_t, int64_t> place(p, i);
          const Answer& answer = answers[p][i];
          EXPECT_EQ(watcher.ended.at(place).ids, answer.ids);
          EXPECT_EQ(watcher.ended.at(place).cancelled, answer.cancelled);
          if (!answer.ids.empty()) {
            EXPECT_EQ(watcher.tokens.at(place).ids, answer.ids);
            EXPECT_EQ(watcher.tokens.at(place).log_probs, answer.log_probs);
          }
          const std::vector<int64_t>& whole = alone[p][i].ids;
          const size_t most = at == cancel.end() ? whole.size() : at->second;
          EXPECT_EQ(answer.ids, std::vector<int64_t>(
                                    whole.begin(), whole.begin() + std::min(most, whole.size())));
          EXPECT_EQ(answer.cancelled, at != cancel.end() && whole.size() >= most);
          if (at == cancel.end()) { EXPECT_EQ(answer.log_probs, alone[p][i].log_probs); }
        }
      }
      EXPECT_EQ(watcher.ended.size(), 10u);
    }
  }
}

// Ranks that share every sequence: only the first has the arriving prompts and the functions.
TEST(ArrivalsTest, RanksThatShareSequencesUseTheArrivalsOfTheFirst) {
  const std::vector<RolloutPrompt> prompts = MixedPrompts();
  const Answers alone = Alone(*SmallModel(at::kDouble), prompts, CallOptions());
  for (const int ranks : {2, 3}) {
    std::vector<std::unique_ptr<Transformer>> models;  // share a random generator
    for (int rank = 0; rank < ranks; ++rank) models.push_back(SmallModel(at::kDouble));
    testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
      const bool first = world->rank() == 0;
      ASSERT_OK_AND_ASSIGN(
          const std::shared_ptr<const attention::Attention> attention,
          attention::CreateAttention({{.name = "ring"}, world->communicator()}));
      for (const int64_t pause : {0, 3}) {
        RolloutOptions options = CallOptions();
        options.spread = SpreadSequences{world->communicator(), attention};
        Watcher watcher{.cancel = {{1, 4}}};
        watcher.AddTo(options);
        Bringer bringer{{prompts.begin() + 2, prompts.end()}, pause};
        options.arrivals = std::ref(bringer);
        if (!first) options.arrivals = [] { return std::vector<RolloutPrompt>{{{60, 59}}}; };
        ASSERT_OK_AND_ASSIGN(const Answers made,
                             Rollout(*models[world->rank()],
                                     absl::MakeConstSpan(prompts).subspan(0, 2), options));
        ASSERT_EQ(made.size(), prompts.size());
        for (size_t p = 0; p < prompts.size(); ++p) {
          if (p != 1) {
            ExpectSame({made[p]}, {alone[p]}, 1e-10);
            continue;
          }
          for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(made[p][i].ids, std::vector<int64_t>(alone[p][i].ids.begin(),
                                                           alone[p][i].ids.begin() + 4));
            EXPECT_TRUE(made[p][i].cancelled);
          }
        }
        EXPECT_EQ(made[3][0].top.size(), 15u);
        EXPECT_EQ(watcher.ended.size(), first ? 10u : 0u);
      }
      // An error in a function of the first rank is one on all ranks.
      for (const int which : {0, 1, 2}) {
        RolloutOptions options = CallOptions();
        options.spread = SpreadSequences{world->communicator(), attention};
        options.on_token = [=](const OpenAnswer&, const Choice&) -> bool {
          TORCH_CHECK_VALUE(which != 0, "boo");
          return true;
        };
        options.on_answer = [=](int64_t, int64_t, const Answer&) {
          TORCH_CHECK_VALUE(which != 1, "boo");
        };
        options.arrivals = [=]() -> std::vector<RolloutPrompt> {
          TORCH_CHECK_VALUE(which != 2, "boo");
          return {};
        };
        EXPECT_THAT(Rollout(*models[world->rank()], prompts, options).status(),
                    StatusIs(first ? absl::StatusCode::kInvalidArgument
                                   : absl::StatusCode::kAborted,
                             HasSubstr(first ? "boo" : "its message says why")));
      }
      // Functions on one rank alone are refused on all.
      RolloutOptions options = CallOptions();
      options.spread = SpreadSequences{world->communicator(), attention};
      if (first) options.arrivals = [] { return std::vector<RolloutPrompt>(); };
      EXPECT_THAT(Rollout(*models[world->rank()], prompts, options).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("other prompts")));
    });
  }
}

// The first token from given logits is the one that a rollout chooses.
TEST(ArrivalsTest, FirstTokensAreThoseOfARollout) {
  const auto model = SmallModel(at::kDouble);
  std::vector<RolloutPrompt> prompts = Prompts({9, 40});
  prompts[0].answers = 4;
  prompts[1].top = 3;
  const RolloutOptions options{.sampling = {.max_new_tokens = 1, .temperature = 1.1, .seed = 4},
                               .answers = 2};
  ASSERT_OK_AND_ASSIGN(Answers wanted, Rollout(*model, prompts, options));
  for (RolloutPrompt& prompt : prompts) prompt.sampling = options.sampling;
  prompts[1].sampling->stop_ids = {wanted[1][0].ids[0]};
  wanted[1][0].stopped = true;
  wanted[1][1].stopped = wanted[1][1].ids == wanted[1][0].ids;
  std::vector<at::Tensor> logits;
  for (const RolloutPrompt& prompt : prompts)
    logits.push_back(LogitsOf(*model, prompt.ids, static_cast<int64_t>(prompt.ids.size()) - 1)[0]);
  const Answers made = FirstTokens(*model, at::stack(logits), prompts, options);
  ExpectSame(made, wanted, 1e-11);
  EXPECT_EQ(made[1][0].top[0].size(), 3u);
  EXPECT_THROW(FirstTokens(*model, logits[0], prompts, options), c10::ValueError);
}

TEST(ArrivalsTest, BadPrompts) {
  const auto model = SmallModel(at::kFloat);
  const auto status = [&](RolloutPrompt prompt) {
    return Rollout(*model, {{{{1}}, std::move(prompt)}}, {}).status();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(status({.ids = {1}, .sampling = SamplingOptions{.top_p = 2.0}}),
              StatusIs(invalid, HasSubstr("prompt 1: sampling: top_p is 2")));
  EXPECT_THAT(status({.ids = {1}, .answers = -1}),
              StatusIs(invalid, HasSubstr("prompt 1: answers is -1")));
  EXPECT_THAT(status({.ids = {1}, .top = -2}), StatusIs(invalid, HasSubstr("top is -2")));
}

}  // namespace
}  // namespace moonring::model
