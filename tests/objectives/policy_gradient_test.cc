// GRPO and related losses compared with TRL's trainers
// (tests/golden/objectives/make_policy_gradient.py), with finite differences, and over ranks,
// layouts and micro-batches.

#include "objectives/policy_gradient.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/autograd/parameter.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "comm/sequence.h"
#include "nlohmann/json.hpp"
#include "objectives/log_prob.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"

namespace moonring::objectives {
namespace {

using comm::Division;
using comm::kIgnore;
using comm::Ownership;
using moonring::testing::RelativeError;
using moonring::testing::RunRanks;
using nlohmann::json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A document with a prompt and an answer, and the values of its tokens. The first `prompt` tokens
// except the last one have no target.
struct Answer {
  at::Tensor log_prob, old, reference, entropy, high_entropy, targets;
  double advantage = 0.0;
  bool counted = true;
};

using Answers = std::vector<Answer>;

at::Tensor Joined(const Answers& all, at::Tensor Answer::*field) {
  std::vector<at::Tensor> parts = {
      at::empty({0}, all.empty() ? at::TensorOptions(at::kDouble) : (all[0].*field).options())};
  for (const Answer& one : all) parts.push_back(one.*field);
  return at::cat(parts);
}

std::vector<int64_t> LengthsOf(const Answers& all) {
  std::vector<int64_t> lengths;
  for (const Answer& one : all) lengths.push_back(one.targets.size(0));
  return lengths;
}

struct Uses {
  bool old = false, high_entropy = false, sampled = false;
};

struct Result {
  double loss = 0.0;
  int64_t count = 0;
  at::Tensor gradient_T;  // gradient of the loss with respect to the stream's log-probs
  Metrics metrics;
};

PolicyGradientOptions WithLoss(std::string loss_type, double beta = 0.0,
                               std::string level = "token") {
  PolicyGradientOptions options;
  options.loss_type = std::move(loss_type);
  options.beta = beta;
  options.importance_sampling_level = std::move(level);
  options.max_completion_length = 8;
  return options;
}

// Returns one rank's loss of a micro-batch, and the log-probs that receive its gradient.
std::pair<Sums, at::Tensor> LossOf(const PolicyGradient& policy_gradient, const Answers& all,
                                   Uses uses, const comm::Layout& layout,
                                   const std::shared_ptr<comm::Communicator>& group) {
  const auto mine = [&](at::Tensor Answer::*field) {
    return layout.Cut(Joined(all, field), group->rank());
  };
  PolicyBatch batch;
  batch.log_prob_T = mine(&Answer::log_prob).clone().requires_grad_();
  if (uses.old) batch.old_T = mine(&Answer::old);
  if (policy_gradient.needs_reference()) batch.reference_T = mine(&Answer::reference);
  if (uses.high_entropy) batch.high_entropy_T = mine(&Answer::high_entropy);
  if (uses.sampled) batch.sampled_T = mine(&Answer::reference);  // any other numbers
  batch.entropy_T = mine(&Answer::entropy);
  batch.targets_T = mine(&Answer::targets).to(at::kLong);
  std::vector<double> advantages;
  for (const Answer& one : all) {
    advantages.push_back(one.advantage);
    batch.counted.push_back(one.counted);
  }
  batch.advantages = at::tensor(advantages, at::kDouble);
  Sums sums = policy_gradient.Loss(batch, layout, group);
  sums.loss.backward();
  return {std::move(sums), batch.log_prob_T.grad()};
}

void AddTo(Metrics& total, const Metrics& more) {
  for (const auto& [name, metric] : more) {
    if (metric.kind == MetricKind::kMean) {
      total[name].sum += metric.sum;
      total[name].count += metric.count;
    } else if (metric.count > 0) {
      const bool first = !total.contains(name);
      Metric& mine = total[name];
      mine.kind = metric.kind;
      mine.count += metric.count;
      mine.sum = first                             ? metric.sum
                 : metric.kind == MetricKind::kMin ? std::min(mine.sum, metric.sum)
                                                   : std::max(mine.sum, metric.sum);
    }
  }
}

int64_t CountOf(const PolicyGradient& policy_gradient, const Answers& all) {
  std::vector<double> targets;
  std::vector<bool> counted;
  for (const Answer& one : all) {
    targets.push_back(static_cast<double>(one.targets.ne(kIgnore).sum().item<int64_t>()));
    counted.push_back(one.counted);
  }
  return policy_gradient.Count(at::tensor(targets, at::kDouble), counted);
}

// A configuration of the loss.
struct Way {
  PolicyGradientOptions options;
  Uses uses;
};

// Runs each configuration in micro-batches of `packed` documents, on ranks that are threads.
std::vector<Result> RunWays(const std::vector<Way>& ways, const Answers& all,
                            const Division& division, int64_t packed) {
  const auto documents = static_cast<int64_t>(all.size());
  std::vector<Answers> parts;
  for (int64_t begin = 0; begin == 0 || begin < documents; begin += packed)
    parts.emplace_back(all.begin() + begin, all.begin() + std::min(documents, begin + packed));
  std::vector<Result> results(ways.size());
  std::mutex mutex;
  // Indices: gradients[way][part][rank].
  std::vector<std::vector<std::vector<at::Tensor>>> gradients(
      ways.size(), std::vector<std::vector<at::Tensor>>(parts.size(),
                                                        std::vector<at::Tensor>(division.ranks())));
  const auto one = [&](const std::shared_ptr<comm::Communicator>& group) {
    for (size_t way = 0; way < ways.size(); ++way) {
      const auto policy_gradient = *PolicyGradient::Create(ways[way].options);
      for (size_t part = 0; part < parts.size(); ++part) {
        const auto layout = *comm::Layout::Create(LengthsOf(parts[part]), division);
        auto [sums, gradient] =
            LossOf(*policy_gradient, parts[part], ways[way].uses, *layout, group);
        const std::lock_guard<std::mutex> lock(mutex);
        gradients[way][part][group->rank()] = gradient;
        if (group->rank() != 0) continue;
        results[way].count += CountOf(*policy_gradient, parts[part]);
        results[way].loss += sums.loss.item<double>();
        AddTo(results[way].metrics, sums.metrics);
      }
    }
  };
  if (division.ranks() == 1) {
    one(comm::Communicator::Alone());
  } else {
    RunRanks(division.ranks(),
             [&](std::shared_ptr<comm::World> world) { one(world->communicator()); });
  }
  for (size_t way = 0; way < ways.size(); ++way) {
    std::vector<at::Tensor> whole;
    for (size_t part = 0; part < parts.size(); ++part) {
      const auto layout = *comm::Layout::Create(LengthsOf(parts[part]), division);
      whole.push_back(layout->Join(gradients[way][part]));
    }
    results[way].gradient_T = at::cat(whole);
  }
  return results;
}

Result ResultOf(const PolicyGradientOptions& options, const Answers& all, Uses uses = {},
                int64_t packed = 100) {
  return RunWays({{options, uses}}, all, {}, packed)[0];
}

const json& Golden() {
  static const json& golden =
      *new json(json::parse(std::ifstream("tests/golden/objectives/policy_gradient.json")));
  return golden;
}

// Converts values of an answer's tokens to values of all tokens of the document. The other tokens,
// which are not used, get `otherwise`.
at::Tensor Spread(const json& values, int64_t prompt, double otherwise) {
  const auto numbers = values.get<std::vector<double>>();
  at::Tensor all =
      at::full({prompt + static_cast<int64_t>(numbers.size())}, otherwise, at::kDouble);
  all.narrow(0, prompt - 1, static_cast<int64_t>(numbers.size()))
      .copy_(at::tensor(numbers, at::kDouble));
  return all;
}

Answers GoldenAnswers(const json& wanted) {
  const json& golden = Golden();
  const bool masked = wanted["options"].value("masked", false);
  Answers all;
  for (size_t d = 0; d < golden["lengths"].size(); ++d) {
    const int64_t prompt = golden["prompts"][d], length = golden["lengths"][d];
    Answer one;
    one.log_prob = Spread(golden["policy"][d], prompt, 3.0);
    one.old = Spread(golden["old"][d], prompt, kNaN);
    one.reference = Spread(golden["reference"][d], prompt, kNaN);
    one.entropy = Spread(golden["entropies"][d], prompt, kNaN);
    one.high_entropy = at::zeros_like(one.log_prob);
    if (wanted.contains("high_entropy")) {
      std::vector<double> chosen;
      for (const json& each : wanted["high_entropy"][d]) chosen.push_back(each.get<bool>());
      one.high_entropy = Spread(chosen, prompt, 1.0);
    }
    one.targets = at::full({prompt + length}, kIgnore, at::kLong);
    one.targets.narrow(0, prompt - 1, length).fill_(2);
    one.advantage = golden["advantages"][d];
    one.counted = !(masked && golden["truncated"][d].get<bool>());
    all.push_back(one);
  }
  return all;
}

PolicyGradientOptions GoldenOptions(const json& o) {
  PolicyGradientOptions options;
  options.loss_type = o.value("loss_type", "dapo");
  options.beta = o.value("beta", 0.0);
  options.epsilon = o.value("epsilon", 0.2);
  if (o.contains("epsilon_high")) options.epsilon_high = o["epsilon_high"].get<double>();
  if (o.contains("delta")) options.delta = o["delta"].get<double>();
  options.importance_sampling_level = o.value("importance_sampling_level", "token");
  options.max_completion_length = Golden()["max_completion_length"];
  return options;
}

void ExpectMetrics(const Metrics& ours, const json& golden) {
  for (const auto& [name, wanted] : golden.items()) {
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_NEAR(ours.at(name).sum / ours.at(name).count, wanted.get<double>(), 1e-12) << name;
  }
}

// Every loss_type, level, beta, clip and mask equals TRL's, in micro-batches of any size, on one
// rank and on several.
TEST(PolicyGradientTest, IsTrls) {
  int64_t clipped = 0, cases = 0;
  for (const char* kind : {"losses", "rloo"}) {
    for (const json& wanted : Golden()[kind]) {
      SCOPED_TRACE(wanted["options"].dump());
      const json& o = wanted["options"];
      const Answers all = GoldenAnswers(wanted);
      std::vector<at::Tensor> gradient;
      for (size_t d = 0; d < all.size(); ++d)
        gradient.push_back(Spread(wanted["gradient"][d], Golden()["prompts"][d], 0.0));
      const Uses uses{.old = o.value("old", false),
                      .high_entropy = o.contains("top_entropy_quantile")};
      for (const int64_t packed : {100, 4, 1}) {
        const Result ours = ResultOf(GoldenOptions(o), all, uses, packed);
        const auto count = static_cast<double>(ours.count);
        EXPECT_NEAR(ours.loss / count, wanted["value"].get<double>(), 1e-12);
        EXPECT_TRUE(RelativeError(ours.gradient_T / count, at::cat(gradient), 1e-12));
        ExpectMetrics(ours.metrics, wanted["metrics"]);
        clipped += ours.metrics.at("clip_ratio/region_mean").sum > 0;
        ++cases;
      }
    }
  }
  EXPECT_GE(cases, 3 * 100);
  EXPECT_GE(clipped, cases / 2);  // otherwise the golden files would prove little
}

// The computation from logits with a temperature equals TRL's.
TEST(PolicyGradientTest, ChainsAreTrls) {
  for (const json& wanted : Golden()["chain"]) {
    const json& o = wanted["options"];
    SCOPED_TRACE(o.dump());
    Answers all = GoldenAnswers(wanted);
    std::vector<at::Tensor> logits, gradient, targets;
    for (size_t d = 0; d < all.size(); ++d) {
      const auto rows = [&](const json& numbers) {
        std::vector<at::Tensor> tensors;
        for (const json& row : numbers)
          tensors.push_back(at::tensor(row.get<std::vector<double>>(), at::kDouble));
        return at::stack(tensors);
      };
      logits.push_back(rows(wanted["logits"][d]));
      gradient.push_back(rows(wanted["gradient"][d]));
      at::Tensor labels = at::tensor(wanted["ids"][d].get<std::vector<int64_t>>(), at::kLong);
      labels.narrow(0, 0, Golden()["prompts"][d]).fill_(kIgnore);
      targets.push_back(comm::ShiftLabels(labels, {labels.size(0)}));
    }
    at::Tensor logits_TV = at::cat(logits).requires_grad_();
    const auto head = std::make_shared<base::Parameter>(
        "head", at::eye(logits_TV.size(1), at::kDouble), /*trainable=*/false);
    LogProbOptions options;
    options.temperature = o["temperature"];
    const LogProbs made =
        TokenLogProb(logits_TV, head, at::cat(targets), options, {.entropy = true});
    const auto policy_gradient = *PolicyGradient::Create(GoldenOptions(o));
    PolicyBatch batch;
    batch.log_prob_T = made.log_prob_T;
    batch.entropy_T = made.statistics.entropy_T;
    batch.targets_T = at::cat(targets);
    if (o.value("old", false)) batch.old_T = Joined(all, &Answer::old);
    if (policy_gradient->needs_reference()) batch.reference_T = Joined(all, &Answer::reference);
    batch.advantages = at::tensor(Golden()["advantages"].get<std::vector<double>>(), at::kDouble);
    for (const Answer& one : all) batch.counted.push_back(one.counted);
    const Sums sums = policy_gradient->Loss(batch, **comm::Layout::Create(LengthsOf(all), {}),
                                            comm::Communicator::Alone());
    const auto count = static_cast<double>(CountOf(*policy_gradient, all));
    (sums.loss / count).backward();
    EXPECT_NEAR(sums.loss.item<double>() / count, wanted["value"].get<double>(), 1e-12);
    EXPECT_TRUE(RelativeError(logits_TV.grad(), at::cat(gradient), 1e-12));
    ExpectMetrics(sums.metrics, wanted["metrics"]);
  }
}

// Returns answers of different lengths with random values. One is masked, and one document is only
// a prompt.
Answers RandomAnswers(const std::vector<int64_t>& lengths) {
  auto generator = at::detail::createCPUGenerator(5);
  Answers all;
  for (const int64_t length : lengths) {
    const auto normal = [&] { return at::randn({length}, generator, at::kDouble); };
    const auto d = static_cast<int64_t>(all.size());
    Answer one;
    one.log_prob = -normal().abs();
    one.old = one.log_prob + 0.2 * normal() + 0.3 * (d % 3 - 1);
    one.reference = one.log_prob + 0.5 * normal();
    one.entropy = normal().abs();
    one.high_entropy = one.entropy.gt(0.5).to(at::kDouble);
    one.targets = at::full({length}, 3, at::kLong);
    one.targets.narrow(0, 0, length / 3).fill_(kIgnore);
    if (d == 3) one.targets.fill_(kIgnore);
    one.counted = d != 1;
    one.advantage = d % 2 == 0 ? 0.7 + 0.1 * static_cast<double>(d) : -1.1;
    all.push_back(one);
  }
  return all;
}

// Every loss with every level of importance sampling.
std::vector<Way> Ways() {
  std::vector<Way> ways;
  for (const PolicyLoss& loss : PolicyLosses()) {
    if (loss.of_sequences) {
      ways.push_back({WithLoss(loss.name), {.old = true, .sampled = true}});
      continue;
    }
    for (const char* level : {"token", "sequence"}) {
      PolicyGradientOptions options = WithLoss(loss.name, 0.15, level);
      options.delta = 1.6;
      options.epsilon_high = 0.3;
      ways.push_back({options, {.old = true, .high_entropy = true, .sampled = true}});
    }
  }
  return ways;
}

void ExpectTheSame(const Result& many, const Result& one) {
  ASSERT_TRUE(std::isfinite(one.loss));
  EXPECT_EQ(many.count, one.count);
  EXPECT_NEAR(many.loss, one.loss, 1e-12 * (1 + std::abs(one.loss)));
  EXPECT_TRUE(RelativeError(many.gradient_T, one.gradient_T, 1e-12));
  for (const auto& [name, metric] : one.metrics) {
    EXPECT_NEAR(many.metrics.at(name).sum, metric.sum, 1e-11 * (1 + std::abs(metric.sum))) << name;
    EXPECT_EQ(many.metrics.at(name).count, metric.count) << name;
  }
}

// Results do not depend on ranks, layouts and micro-batches: answers split over ranks, whole
// answers, a document that is only a prompt, an empty document, and ranks without tokens.
TEST(PolicyGradientTest, RanksLayoutsAndMicroBatchesDoNotMatter) {
  const std::vector<std::vector<int64_t>> shapes = {
      {300, 130, 3, 70, 1, 90, 17}, {4, 3}, {0, 66, 129, 2}, {}};
  const std::vector<Way> ways = Ways();
  for (const std::vector<int64_t>& lengths : shapes) {
    const Answers all = RandomAnswers(lengths);
    const std::vector<Result> one = RunWays(ways, all, {}, 100);
    for (const Division& division :
         {Division{}, Division{.contexts = 2, .ownership = Ownership::kZigzag},
          Division{.heads = 2}, Division{.contexts = 4, .ownership = Ownership::kWholeDocuments},
          Division{.contexts = 2, .heads = 2}}) {
      for (const int64_t packed : {100, 2}) {
        const std::vector<Result> many = RunWays(ways, all, division, packed);
        for (size_t way = 0; way < ways.size(); ++way) {
          const PolicyGradientOptions& options = ways[way].options;
          SCOPED_TRACE(::testing::Message()
                       << options.loss_type << ", " << options.importance_sampling_level << ", "
                       << lengths.size() << " documents, " << packed << " at a time, over "
                       << division.contexts << " x " << division.heads << " ranks");
          ExpectTheSame(many[way], one[way]);
        }
      }
    }
  }
}

TEST(PolicyGradientTest, FiniteDifferences) {
  Answers all = RandomAnswers({6, 4, 5, 3, 7, 2});
  constexpr double kStep = 1e-6;  // central differences: error about 1e-9
  for (const auto& [options, uses] : Ways()) {
    SCOPED_TRACE(options.loss_type + ", " + options.importance_sampling_level);
    const Result ours = ResultOf(options, all, uses);
    EXPECT_GT(ours.gradient_T.abs().sum().item<double>(), 0.0);
    int64_t place = 0;
    for (Answer& one : all) {
      for (int64_t t = 0; t < one.log_prob.size(0); ++t, ++place) {
        const double was = one.log_prob[t].item<double>();
        double values[2];
        for (const int side : {0, 1}) {
          one.log_prob[t] = was + (side == 0 ? -kStep : kStep);
          values[side] = ResultOf(options, all, uses).loss;
        }
        one.log_prob[t] = was;
        EXPECT_NEAR(ours.gradient_T[place].item<double>(), (values[1] - values[0]) / (2 * kStep),
                    1e-7);
      }
    }
  }
}

Answer Of(std::vector<double> log_ratios, double advantage) {
  Answer one;
  const auto n = static_cast<int64_t>(log_ratios.size());
  one.log_prob = at::full({n}, -1.0, at::kDouble);
  one.old = one.log_prob - at::tensor(log_ratios, at::kDouble);
  one.reference = one.log_prob.clone();
  one.entropy = one.high_entropy = at::ones({n}, at::kDouble);
  one.targets = at::zeros({n}, at::kLong);
  one.advantage = advantage;
  return one;
}

// Metrics of clipping equal values computed by hand: the share of clipped tokens, and the answers
// with the smallest and the greatest share.
TEST(PolicyGradientTest, ClippedTokensAreCountedByAnswer) {
  const double up = std::log(1.5), down = std::log(0.5);
  Answer masked = Of({down, down}, -1.0);
  masked.counted = false;
  Answer prompt = Of({up, up}, 1.0);
  prompt.targets.fill_(kIgnore);
  const Answers all = {Of({up, 0.0, 0.0, down}, 1.0), Of({down, down, up, 0.0}, -1.0),
                       Of({down, down}, -1.0), masked, prompt};
  const Result ours = ResultOf(WithLoss("grpo"), all, {.old = true});
  // Expected values of -min(s A, clip(s) A) per token: for A = 1: -1.2, -1, -1, -0.5; for A = -1:
  // 0.8, 0.8, 1.5, 1 and 0.8, 0.8.
  EXPECT_NEAR(ours.loss, -3.7 / 4 + 4.1 / 4 + 0.8, 1e-14);
  EXPECT_EQ(ours.count, 4);
  const auto expect = [&](const char* name, double sum, double count) {
    EXPECT_NEAR(ours.metrics.at(name).sum, sum, 1e-14) << name;
    EXPECT_EQ(ours.metrics.at(name).count, count) << name;
  };
  expect("clip_ratio/low_mean", 4, 10);
  expect("clip_ratio/high_mean", 1, 10);
  expect("clip_ratio/region_mean", 5, 10);
  expect("clip_ratio/low_min", 0, 3);
  expect("clip_ratio/high_max", 0.25, 3);
  EXPECT_EQ(ours.metrics.at("clip_ratio/low_min").kind, MetricKind::kMin);
  EXPECT_EQ(ours.metrics.at("clip_ratio/high_max").kind, MetricKind::kMax);

  EXPECT_EQ(ResultOf(WithLoss("bnpo"), all).count, 10);
  EXPECT_EQ(ResultOf(WithLoss("dapo"), all).count, 10);
  EXPECT_EQ(ResultOf(WithLoss("dr_grpo"), all).count, 4 * 8);
  EXPECT_EQ(ResultOf(WithLoss("rloo"), all).count, 4);

  // With one ratio per answer, the exp of the mean of log s: for the second answer 0.375^(1/4) <
  // 0.8.
  const Result sequence = ResultOf(WithLoss("grpo", 0.0, "sequence"), all, {.old = true});
  EXPECT_NEAR(sequence.loss, -std::pow(0.75, 0.25) + 0.8 + 0.8, 1e-14);
  EXPECT_EQ(sequence.metrics.at("clip_ratio/low_mean").sum, 2);
  EXPECT_EQ(sequence.metrics.at("clip_ratio/low_mean").count, 4);
  EXPECT_EQ(sequence.metrics.at("clip_ratio/low_min").sum, 0);
  // With the sum of log s instead of the mean. A masked answer has the ratio 1.
  EXPECT_NEAR(ResultOf(WithLoss("rloo"), all, {.old = true}).loss, -0.75 + 0.8 + 0.8 + 1, 1e-14);
}

// Tokens that a tool gave have no target. For each loss: the value, the gradient, the divisor and
// the metrics by hand, from the formulas in policy_gradient.h over the sampled tokens alone. Values
// at given tokens are NaN where they must not be read.
TEST(PolicyGradientTest, GivenTokensAreInNoTermAndNoDivisor) {
  const std::vector<std::vector<int>> masks = {{1, 1, 0, 0, 1}, {1, 0, 0, 0, 1, 1, 0, 1}, {1}};
  const std::vector<double> advantages = {0.7, -1.2, 0.4};
  constexpr double kBeta = 0.1, kLow = 0.8, kHigh = 1.2;
  Answers all;
  int64_t tokens = 0;
  for (size_t d = 0; d < masks.size(); ++d) {
    const auto count = static_cast<int64_t>(masks[d].size());
    std::vector<double> row(count, 0.0);
    Answer answer = Of(row, advantages[d]);
    for (int64_t t = 0; t < count; ++t) {
      const bool sampled = masks[d][t] == 1;
      const double x = 0.13 * static_cast<double>(t + 1) * (d == 1 ? -1.0 : 1.0);
      tokens += sampled;
      answer.log_prob[t] = sampled ? -1.0 + x : 100.0;
      answer.old[t] = sampled ? -1.0 - 0.4 * x : kNaN;
      answer.reference[t] = sampled ? -0.8 + 0.3 * x : kNaN;
      answer.entropy[t] = sampled ? 2.0 : kNaN;
      if (!sampled) answer.targets[t] = kIgnore;
    }
    all.push_back(answer);
  }
  struct Case {
    std::string loss_type, level;
    int64_t count;
  };
  for (const auto& [type, level, count] : std::vector<Case>{{"grpo", "token", 3},
                                                            {"bnpo", "token", tokens},
                                                            {"dapo", "token", tokens},
                                                            {"dr_grpo", "token", 3 * 8},
                                                            {"grpo", "sequence", 3},
                                                            {"dapo", "sequence", tokens},
                                                            {"rloo", "token", 3}}) {
    SCOPED_TRACE(type + " " + level);
    const bool rloo = type == "rloo", sequence = rloo || level == "sequence";
    const double beta = rloo ? 0.0 : kBeta;
    double loss = 0.0, clipped = 0.0;
    std::vector<double> gradient;
    for (size_t d = 0; d < masks.size(); ++d) {
      const double a = advantages[d];
      const auto value = [&](const at::Tensor& of, size_t t) {
        return of[static_cast<int64_t>(t)].item<double>();
      };
      double n = 0.0, log_ratio = 0.0;
      for (size_t t = 0; t < masks[d].size(); ++t) {
        if (masks[d][t] == 0) continue;
        n += 1.0;
        log_ratio += value(all[d].log_prob, t) - value(all[d].old, t);
      }
      const double by = type == "grpo" ? n : 1.0;
      const auto term = [&](double s) { return -std::min(s * a, std::clamp(s, kLow, kHigh) * a); };
      // d term / d log s: 0 where the clipped ratio is the smaller product.
      const auto slope = [&](double s) {
        return s * a <= std::clamp(s, kLow, kHigh) * a ? -s * a : 0.0;
      };
      const double whole = std::exp(rloo ? log_ratio : log_ratio / n);
      if (sequence) loss += term(whole) * (rloo ? 1.0 : n) / by;
      for (size_t t = 0; t < masks[d].size(); ++t) {
        gradient.push_back(0.0);
        if (masks[d][t] == 0) continue;
        const double p = value(all[d].log_prob, t), r = value(all[d].reference, t);
        const double s = std::exp(p - value(all[d].old, t));
        loss += (sequence ? 0.0 : term(s)) / by + beta * (std::exp(r - p) - (r - p) - 1.0) / by;
        gradient.back() =
            (sequence ? slope(whole) : slope(s)) / by + beta * (1.0 - std::exp(r - p)) / by;
        clipped += sequence ? 0.0 : (s < kLow && a < 0) || (s > kHigh && a > 0);
      }
    }
    const Result ours = ResultOf(WithLoss(type, beta, level), all, {.old = true});
    EXPECT_NEAR(ours.loss, loss, 1e-13);
    EXPECT_EQ(ours.count, count);
    EXPECT_LE((ours.gradient_T - at::tensor(gradient, at::kDouble)).abs().max().item<double>(),
              1e-14);
    EXPECT_NEAR(ours.metrics.at("entropy").sum, 2.0 * static_cast<double>(tokens), 1e-13);
    EXPECT_EQ(ours.metrics.at("entropy").count, tokens);
    if (sequence) continue;
    EXPECT_GT(clipped, 0.0);
    EXPECT_EQ(ours.metrics.at("clip_ratio/region_mean").sum, clipped);
    EXPECT_EQ(ours.metrics.at("clip_ratio/region_mean").count, tokens);
  }
}

TEST(PolicyGradientTest, TheSamplersLogProbs) {
  Answer masked = Of({3.0}, 1.0), prompt = Of({2.0}, 1.0);
  masked.counted = false;
  prompt.targets.fill_(kIgnore);
  // The policy's and the sampler's log-probs are all -1, so both differ from the old ones.
  const Answers all = {Of({0.5, -0.25}, 1.0), Of({0.0}, -1.0), masked, prompt};
  const std::string name = "sampling/logp_difference/";
  for (const int64_t packed : {4, 1}) {
    const Result ours = ResultOf(WithLoss("dapo"), all, {.old = true, .sampled = true}, packed);
    EXPECT_NEAR(ours.metrics.at(name + "mean").sum, 0.75, 1e-14);
    EXPECT_EQ(ours.metrics.at(name + "mean").count, 3);
    EXPECT_NEAR(ours.metrics.at(name + "max").sum, 0.5, 1e-14);
    EXPECT_EQ(ours.metrics.at(name + "max").kind, MetricKind::kMax);
    const Result same = ResultOf(WithLoss("dapo"), all, {.sampled = true}, packed);
    EXPECT_EQ(same.metrics.at(name + "max").sum, 0);
  }
  EXPECT_FALSE(ResultOf(WithLoss("dapo"), all).metrics.contains(name + "mean"));
}

// With a negative advantage, the loss grows without bound for large ratios, unless delta limits the
// ratio.
TEST(PolicyGradientTest, DeltaBoundsTheRatio) {
  const Answers all = {Of({std::log(50.0)}, -1.0)};
  EXPECT_NEAR(ResultOf(WithLoss("dapo"), all, {.old = true}).loss, 50, 1e-12);
  PolicyGradientOptions bounded = WithLoss("dapo");
  bounded.delta = 4.0;
  const Result ours = ResultOf(bounded, all, {.old = true});
  EXPECT_NEAR(ours.loss, 4, 1e-12);
  EXPECT_EQ(ours.gradient_T.abs().sum().item<double>(), 0);
}

// If the policy is the one that sampled the answers, ratios are 1 and the gradient is the policy
// gradient.
TEST(PolicyGradientTest, WithoutOldLogProbs) {
  const Answers all = {Of({0.3, 0.9}, 2.0), Of({-4.0}, -3.0)};
  const Result ours = ResultOf(WithLoss("dapo"), all);
  EXPECT_NEAR(ours.loss, -2 - 2 + 3, 1e-14);
  EXPECT_TRUE(at::equal(ours.gradient_T, at::tensor({-2.0, -2.0, 3.0}, at::kDouble)));
}

TEST(PolicyGradientTest, Fp32LogProbsAndNoDocuments) {
  Answers all = RandomAnswers({40, 9});
  const Result exact = ResultOf(WithLoss("grpo", 0.1), all, {.old = true});
  for (Answer& one : all) one.log_prob = one.log_prob.to(at::kFloat);
  const Result ours = ResultOf(WithLoss("grpo", 0.1), all, {.old = true});
  EXPECT_EQ(ours.gradient_T.scalar_type(), at::kFloat);
  EXPECT_NEAR(ours.loss, exact.loss, 1e-6 * (1 + std::abs(exact.loss)));
  const Result none = ResultOf(WithLoss("grpo", 0.1), {}, {.old = true});
  EXPECT_EQ(none.loss, 0);
  EXPECT_EQ(none.count, 0);
}

TEST(PolicyGradientTest, WrongOptions) {
  const auto refusal = [](const std::function<void(PolicyGradientOptions&)>& change,
                          std::string loss_type = "grpo") {
    PolicyGradientOptions options = WithLoss(std::move(loss_type));
    change(options);
    return std::string(PolicyGradient::Create(options).status().message());
  };
  EXPECT_EQ(refusal([](auto& o) { o.loss_type = "dappo"; }),
            "objectives.policy_gradient: unknown loss_type 'dappo' (did you mean 'dapo'?); known: "
            "grpo, bnpo, dapo, dr_grpo, rloo");
  EXPECT_EQ(refusal([](auto& o) { o.importance_sampling_level = "sequences"; }),
            "objectives.policy_gradient: unknown importance_sampling_level 'sequences' (did you "
            "mean 'sequence'?); known: token, sequence");
  EXPECT_EQ(refusal([](auto& o) { o.beta = -1; }),
            "objectives.policy_gradient: beta is -1, expected 0 or more");
  EXPECT_EQ(refusal([](auto& o) { o.epsilon = kNaN; }),
            "objectives.policy_gradient: epsilon is nan, expected 0 or more");
  EXPECT_EQ(refusal([](auto& o) { o.epsilon_high = -0.1; }),
            "objectives.policy_gradient: epsilon_high is -0.1, expected 0 or more");
  EXPECT_EQ(refusal([](auto& o) { o.delta = 0; }),
            "objectives.policy_gradient: delta is 0, expected more than 0");
  EXPECT_EQ(
      refusal([](auto& o) { o.max_completion_length = 0; }, "dr_grpo"),
      "objectives.policy_gradient: max_completion_length is 0, expected 1 or more for dr_grpo");
  EXPECT_EQ(
      refusal([](auto& o) { o.beta = 0.1; }, "rloo"),
      "objectives.policy_gradient: beta is 0.1, expected 0: rloo's KL term is in its rewards");
  EXPECT_EQ(refusal([](auto& o) { o.delta = 2; }, "rloo"),
            "objectives.policy_gradient: delta is 2, expected none: rloo has no such bound");
  EXPECT_EQ(refusal([](auto& o) { o.importance_sampling_level = "sequence"; }, "rloo"),
            "objectives.policy_gradient: importance_sampling_level is sequence, expected none: "
            "rloo's ratios are always of whole answers");
}

TEST(PolicyGradientTest, WrongCalls) {
  const auto layout = *comm::Layout::Create({3, 2}, {});
  const auto with_kl = *PolicyGradient::Create(WithLoss("grpo", 0.1)),
             rloo = *PolicyGradient::Create(WithLoss("rloo"));
  PolicyBatch good;
  good.log_prob_T = good.reference_T = at::zeros({5}, at::kDouble);
  good.targets_T = at::zeros({5}, at::kLong);
  good.advantages = at::ones({2}, at::kDouble);
  const auto refused = [&](const PolicyGradient& policy_gradient,
                           const std::function<void(PolicyBatch&)>& change,
                           const std::string& words) {
    PolicyBatch batch = good;
    change(batch);
    try {
      policy_gradient.Loss(batch, *layout, comm::Communicator::Alone());
      FAIL() << "nothing was thrown; expected: " << words;
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find(words), std::string::npos)
          << error.what_without_backtrace();
    }
  };
  refused(
      *with_kl, [](PolicyBatch& b) { b.reference_T = at::Tensor(); },
      "the reference's log-probs of shape [], log-probs of shape [5]");
  refused(
      *with_kl, [](PolicyBatch& b) { b.old_T = at::zeros({4}, at::kDouble); },
      "old log-probs of shape [4], log-probs of shape [5]");
  refused(
      *with_kl, [](PolicyBatch& b) { b.advantages = at::ones({5}, at::kDouble); },
      "advantages of shape [5] for 2 documents");
  refused(
      *with_kl, [](PolicyBatch& b) { b.counted = {true}; }, "counted says so of 1 documents of 2");
  refused(
      *with_kl, [](PolicyBatch& b) { b.log_prob_T = at::zeros({5}, at::kLong); },
      "expected a floating type [T_local]");
  refused(
      *with_kl,
      [](PolicyBatch& b) {
        b.log_prob_T = b.reference_T = at::zeros({4}, at::kDouble);
        b.targets_T = at::zeros({4}, at::kLong);
      },
      "the layout's tokens of shape [5], log-probs of shape [4]");
  refused(
      *rloo, [](PolicyBatch& b) { b.high_entropy_T = at::ones({5}, at::kBool); },
      "rloo has no use for high_entropy");
  EXPECT_THROW(with_kl->Count(at::ones({2}, at::kDouble), {true}), c10::Error);
}

}  // namespace
}  // namespace moonring::objectives
