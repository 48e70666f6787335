#include "objectives/preference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "objectives/preference_losses.h"
#include "tests/testing/status_matchers.h"

namespace moonring::objectives {
namespace {

using moonring::testing::StatusIs;
using ::testing::HasSubstr;

// Bound for some hundred roundings in fp64.
constexpr double kBound = 1e-13;

struct Step {
  std::vector<double> policy, reference, targets;  // order: chosen, rejected, chosen, ...
  int64_t pairs() const { return static_cast<int64_t>(policy.size()) / 2; }
};

// Returns log-probs that are above and below the reference's in each group.
Step MakeStep(int64_t pairs, double shift = 0.0) {
  Step step;
  for (int64_t i = 0; i < 2 * pairs; ++i) {
    step.targets.push_back(static_cast<double>(1 + (5 * i) % 7));
    step.reference.push_back(-step.targets.back() * (1.0 + 0.1 * static_cast<double>(i % 3)));
    step.policy.push_back(std::min(
        -0.05, step.reference.back() + 2.0 * std::sin(1.7 * static_cast<double>(i) + 0.3) + shift));
  }
  return step;
}

at::Tensor PreferenceNumbers(const std::vector<double>& numbers) {
  return at::tensor(numbers, at::kDouble);
}

double LogSigmoid(double x) {
  return x >= 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x));
}
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

bool TakesMeans(const std::string& loss) {
  return loss == "ipo" || loss == "orpo" || loss == "simpo";
}

// Computes a whole step's loss from the definitions, group after group. `mean`: BCO's running mean
// before the step; `seen`: the number of groups in it.
double ClosedForm(const PreferenceOptions& o, const Step& step, int64_t group, double mean = 0.0,
                  int64_t seen = 0) {
  const int64_t n = step.pairs();
  std::vector<double> c(n), r(n), c0(n), r0(n), nll(n);
  for (int64_t i = 0; i < n; ++i) {
    const auto used = [&](const std::vector<double>& sums, int64_t d) {
      return TakesMeans(o.loss) ? sums[d] / step.targets[d] : sums[d];
    };
    c[i] = used(step.policy, 2 * i), r[i] = used(step.policy, 2 * i + 1);
    c0[i] = used(step.reference, 2 * i), r0[i] = used(step.reference, 2 * i + 1);
    nll[i] = -step.policy[2 * i] / step.targets[2 * i];
  }
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += group) {
    const int64_t end = std::min(n, begin + group), size = end - begin;
    double chosen_mean = 0, rejected_mean = 0;
    for (int64_t i = begin; i < end; ++i)
      chosen_mean += (c[i] - c0[i]) / size, rejected_mean += (r[i] - r0[i]) / size;
    mean = (mean * seen + o.beta * (chosen_mean + rejected_mean) / 2) / (seen + 1);
    ++seen;
    for (int64_t i = begin; i < end; ++i) {
      const double u = c[i] - c0[i], v = r[i] - r0[i], d = u - v, b = o.beta, e = o.label_smoothing;
      double loss = 0;
      if (o.loss == "sigmoid") loss = -(1 - e) * LogSigmoid(b * d) - e * LogSigmoid(-b * d);
      if (o.loss == "hinge") loss = std::max(0.0, 1 - b * d);
      if (o.loss == "ipo") loss = (d - 1 / (2 * b)) * (d - 1 / (2 * b));
      if (o.loss == "nca_pair")
        loss = -LogSigmoid(b * u) - 0.5 * LogSigmoid(-b * u) - 0.5 * LogSigmoid(-b * v);
      if (o.loss == "robust")
        loss = (-(1 - e) * LogSigmoid(b * d) + e * LogSigmoid(-b * d)) / (1 - 2 * e);
      if (o.loss == "kto_pair") {
        loss = (1 - Sigmoid(b * (u - std::max(0.0, rejected_mean))) + 1 -
                Sigmoid(b * (std::max(0.0, chosen_mean) - v))) /
               2;
      }
      if (o.loss == "simpo") loss = -LogSigmoid(b * (c[i] - r[i]) - o.simpo_gamma);
      if (o.loss == "orpo") {
        const auto log_odds = [](double x) { return x - std::log(1 - std::exp(x)); };
        loss = -c[i] - b * LogSigmoid(log_odds(c[i]) - log_odds(r[i]));
      }
      if (o.bco_weight > 0)
        loss = (loss - o.bco_weight * (LogSigmoid(b * u - mean) + LogSigmoid(mean - b * v))) /
               (1 + o.bco_weight);
      total += loss + o.ftx * nll[i];
    }
  }
  return total;
}

struct PreferenceOutcome {
  double loss = 0;
  at::Tensor gradient;  // with respect to the policy's log-probs
  Metrics metrics;
};

// Runs a step in micro-batches of the given pairs; each pair occurs once.
PreferenceOutcome RunStep(Preference& preference, const Step& step, int64_t group,
                          const std::vector<std::vector<int64_t>>& micro_batches) {
  at::Tensor policy = PreferenceNumbers(step.policy).requires_grad_();
  const at::Tensor reference = PreferenceNumbers(step.reference),
                   targets = PreferenceNumbers(step.targets);
  if (preference.needs_survey()) preference.Survey(policy, reference, targets, group);
  PreferenceOutcome outcome;
  for (const std::vector<int64_t>& places : micro_batches) {
    std::vector<int64_t> documents;
    for (const int64_t place : places)
      documents.insert(documents.end(), {2 * place, 2 * place + 1});
    const at::Tensor rows = at::tensor(documents, at::kLong);
    PreferenceBatch batch{
        policy.index_select(0, rows), {}, targets.index_select(0, rows), {}, places};
    if (preference.needs_reference()) batch.reference = reference.index_select(0, rows);
    batch.mean_logits = -0.5 * batch.targets;
    const Sums sums = preference.Loss(batch);
    sums.loss.backward();
    outcome.loss += sums.loss.item<double>();
    for (const auto& [name, metric] : sums.metrics) {
      outcome.metrics[name].sum += metric.sum;
      outcome.metrics[name].count += metric.count;
    }
  }
  outcome.gradient = policy.grad();
  return outcome;
}

std::vector<std::vector<int64_t>> Whole(const Step& step) {
  std::vector<int64_t> places(step.pairs());
  std::iota(places.begin(), places.end(), 0);
  return {places};
}

std::unique_ptr<Preference> Make(const PreferenceOptions& options) {
  return *Preference::Create(options);
}

std::vector<PreferenceOptions> Cases() {
  std::vector<PreferenceOptions> cases;
  for (const PreferenceLoss& loss : PreferenceLosses()) {
    for (const double beta : {0.1, 0.8}) {
      cases.push_back({.loss = loss.name, .beta = beta});
      cases.push_back({.loss = loss.name, .beta = beta, .ftx = 0.3, .simpo_gamma = 1.1});
      if (loss.most_smoothing > 0)
        cases.push_back({.loss = loss.name, .beta = beta, .label_smoothing = 0.2});
      if (loss.needs_reference)
        cases.push_back({.loss = loss.name, .beta = beta, .ftx = 0.1, .bco_weight = 0.7});
    }
  }
  return cases;
}

std::string Describe(const PreferenceOptions& o) {
  return o.loss + " beta " + std::to_string(o.beta) + " ftx " + std::to_string(o.ftx) +
         " smoothing " + std::to_string(o.label_smoothing) + " bco " + std::to_string(o.bco_weight);
}

TEST(PreferenceTest, EqualsTheClosedForm) {
  for (const PreferenceOptions& options : Cases()) {
    SCOPED_TRACE(Describe(options));
    for (const double shift : {0.0, 1.0, -1.0}) {
      const Step step = MakeStep(7, shift);
      const double wanted = ClosedForm(options, step, 3);
      EXPECT_NEAR(RunStep(*Make(options), step, 3, Whole(step)).loss, wanted,
                  kBound * std::abs(wanted) * 10);
    }
  }
}

// The gradient equals finite differences of the closed form, including the dependence through the
// divergences of kto_pair. BCO's running mean is constant, because no gradient flows through it.
TEST(PreferenceTest, GradientEqualsFiniteDifferences) {
  constexpr double kStep = 1e-5;  // error about 1e-10
  for (const PreferenceOptions& options : Cases()) {
    if (options.bco_weight > 0) continue;  // peers_test compares BCO's gradient
    SCOPED_TRACE(Describe(options));
    for (const double shift : {0.0, 1.0}) {
      const Step step = MakeStep(5, shift);
      const at::Tensor gradient = RunStep(*Make(options), step, 2, Whole(step)).gradient;
      for (size_t i = 0; i < step.policy.size(); ++i) {
        Step up = step, down = step;
        up.policy[i] += kStep;
        down.policy[i] -= kStep;
        EXPECT_NEAR(gradient[i].item<double>(),
                    (ClosedForm(options, up, 2) - ClosedForm(options, down, 2)) / (2 * kStep), 1e-8)
            << i;
      }
    }
  }
}

// The results of a step depend neither on how it is split into micro-batches nor on the order of
// its pairs.
TEST(PreferenceTest, TheSplitDoesNotMatter) {
  const Step step = MakeStep(7);
  for (const PreferenceOptions& options : Cases()) {
    SCOPED_TRACE(Describe(options));
    const PreferenceOutcome whole = RunStep(*Make(options), step, 3, Whole(step));
    for (const std::vector<std::vector<int64_t>>& split :
         std::vector<std::vector<std::vector<int64_t>>>{{{6, 2, 4, 0, 1, 5, 3}},
                                                        {{3, 0}, {}, {6, 1, 2}, {5}, {4}},
                                                        {{0}, {1}, {2}, {3}, {4}, {5}, {6}}}) {
      const PreferenceOutcome parts = RunStep(*Make(options), step, 3, split);
      EXPECT_NEAR(parts.loss, whole.loss, kBound * std::abs(whole.loss) * 10);
      EXPECT_LE((parts.gradient - whole.gradient).abs().max().item<double>(), kBound);
      for (const auto& [name, metric] : whole.metrics) {
        EXPECT_NEAR(parts.metrics.at(name).sum, metric.sum, kBound * 100) << name;
        EXPECT_EQ(parts.metrics.at(name).count, metric.count) << name;
      }
    }
  }
}

// The gradient of kto_pair through its divergences equals LibTorch's autograd over each whole
// group, with the loss as TRL 0.8.6 defines it.
TEST(PreferenceTest, KtoPairThroughItsDivergences) {
  for (const double shift : {0.0, 0.7, -0.7, 99.0}) {
    Step step = MakeStep(8, shift);
    if (shift == 99.0)
      step.policy = step.reference;  // the first step: means of exactly 0, where the clamp passes
                                     // the gradient
    at::Tensor policy = PreferenceNumbers(step.policy).requires_grad_();
    at::Tensor total = at::zeros({}, at::kDouble);
    for (int64_t begin = 0; begin < 8; begin += 3) {
      const at::Tensor ratio = (policy - PreferenceNumbers(step.reference))
                                   .view({-1, 2})
                                   .slice(0, begin, std::min<int64_t>(8, begin + 3));
      const at::Tensor chosen = ratio.select(1, 0), rejected = ratio.select(1, 1);
      const at::Tensor chosen_kl = chosen.mean().clamp_min(0),
                       rejected_kl = rejected.mean().clamp_min(0);
      const at::Tensor losses = at::cat({1 - at::sigmoid(0.5 * (chosen - rejected_kl)),
                                         1 - at::sigmoid(0.5 * (chosen_kl - rejected))});
      total =
          total + losses.mean() * chosen.size(0);  // the mean of both, so that a pair counts once
    }
    total.backward();
    const PreferenceOutcome ours =
        RunStep(*Make({.loss = "kto_pair", .beta = 0.5}), step, 3, {{7, 0, 3}, {1, 2}, {4, 5, 6}});
    EXPECT_NEAR(ours.loss, total.item<double>(), 1e-13);
    EXPECT_LE((ours.gradient - policy.grad()).abs().max().item<double>(), 1e-14);
  }
}

// BCO's running mean is over all groups so far, including short ones, and is part of the saved
// state.
TEST(PreferenceTest, BcoMeanRunsOverSteps) {
  const PreferenceOptions options{.loss = "sigmoid", .beta = 0.3, .bco_weight = 1.0};
  const auto first = Make(options);
  const Step a = MakeStep(5), b = MakeStep(4, 1.5);
  RunStep(*first, a, 2, Whole(a));
  const std::string state = first->State();
  const double before = RunStep(*first, b, 2, {{2, 3}, {0, 1}}).loss;

  double mean = 0;
  int64_t seen = 0;
  for (int64_t begin = 0; begin < 5; begin += 2) {
    double reward = 0;
    const int64_t end = std::min<int64_t>(5, begin + 2);
    for (int64_t d = 2 * begin; d < 2 * end; ++d)
      reward += 0.3 * (a.policy[d] - a.reference[d]) / static_cast<double>(2 * (end - begin));
    mean = (mean * seen + reward) / (seen + 1);
    ++seen;
  }
  EXPECT_NEAR(before, ClosedForm(options, b, 2, mean, seen), 1e-12);

  const auto second = Make(options);
  ASSERT_OK(second->LoadState(state));
  EXPECT_EQ(second->State(), state);
  EXPECT_EQ(RunStep(*second, b, 2, {{2, 3}, {0, 1}}).loss, before);
  for (const char* text : {"", "{}", "[1]", "{\"mean_reward\": \"x\", \"groups\": 1}",
                           "{\"mean_reward\": 0, \"groups\": -1}"}) {
    EXPECT_THAT(second->LoadState(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a state requires")));
  }
}

TEST(PreferenceTest, MetricsAreSumsAndCounts) {
  const Step step = MakeStep(3);
  const PreferenceOutcome dpo = RunStep(*Make({.beta = 0.5}), step, 1, Whole(step));
  double rewards = 0, logps = 0, right = 0, targets = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const double c = step.policy[2 * i] - step.reference[2 * i],
                 r = step.policy[2 * i + 1] - step.reference[2 * i + 1];
    rewards += 0.5 * c;
    logps += step.policy[2 * i + 1];
    right += c > r;
    targets += step.targets[2 * i];
  }
  EXPECT_NEAR(dpo.metrics.at("rewards/chosen").sum, rewards, kBound);
  EXPECT_NEAR(dpo.metrics.at("rewards/margins").sum,
              rewards - dpo.metrics.at("rewards/rejected").sum, kBound);
  EXPECT_EQ(dpo.metrics.at("rewards/accuracies").sum, right);
  EXPECT_NEAR(dpo.metrics.at("logps/rejected").sum, logps, kBound);
  EXPECT_EQ(dpo.metrics.at("logits/chosen").count, targets);
  EXPECT_EQ(dpo.metrics.at("logits/chosen").sum, -0.5 * targets);
  for (const auto& [name, metric] : dpo.metrics) {
    if (name.find("logits") != 0) {
      EXPECT_EQ(metric.count, 3) << name;
    }
  }
  EXPECT_EQ(dpo.metrics.size(), 8);

  // ftx does not apply to the odds-ratio term, unlike in LLaMA-Factory.
  const PreferenceOutcome orpo =
      RunStep(*Make({.loss = "orpo", .beta = 0.5, .ftx = 2.0}), step, 1, Whole(step));
  const PreferenceOutcome plain =
      RunStep(*Make({.loss = "orpo", .beta = 0.5}), step, 1, Whole(step));
  EXPECT_EQ(orpo.metrics.at("odds_ratio_loss").sum, plain.metrics.at("odds_ratio_loss").sum);
  EXPECT_NEAR(orpo.metrics.at("sft_loss").sum + 0.5 * orpo.metrics.at("odds_ratio_loss").sum,
              plain.loss, 1e-12);
}

// In DPO's first step the policy equals the reference, and the loss is ln 2.
TEST(PreferenceTest, LnTwoWhereThePolicyIsTheReference) {
  Step step = MakeStep(4);
  step.policy = step.reference;
  EXPECT_NEAR(RunStep(*Make({}), step, 2, Whole(step)).loss / 4, std::log(2.0), 1e-15);
}

TEST(PreferenceTest, NothingAndNoTargets) {
  for (const PreferenceOptions& options : Cases()) {
    SCOPED_TRACE(Describe(options));
    const Step none;
    const PreferenceOutcome empty =
        RunStep(*Make(options), none, 2, std::vector<std::vector<int64_t>>(1));
    EXPECT_EQ(empty.loss, 0.0);
    EXPECT_EQ(empty.gradient.numel(), 0);
    for (const auto& [name, metric] : empty.metrics)
      EXPECT_TRUE(metric.sum == 0 && metric.count == 0) << name;
    for (const int64_t missing : {1, 2, 3}) {  // chosen, rejected, both
      Step step = MakeStep(2);
      for (int64_t d = 0; d < 2; ++d) {
        if (missing & (d + 1)) step.policy[d] = step.reference[d] = step.targets[d] = 0;
      }
      const PreferenceOutcome outcome = RunStep(*Make(options), step, 2, Whole(step));
      EXPECT_TRUE(std::isfinite(outcome.loss));
      EXPECT_TRUE(at::isfinite(outcome.gradient).all().item<bool>()) << outcome.gradient;
      for (const auto& [name, metric] : outcome.metrics)
        EXPECT_TRUE(std::isfinite(metric.sum)) << name;
    }
  }
}

// An answer with probability 1 has infinite odds. Loss and gradient are finite; TRL's gradient is
// not.
TEST(PreferenceTest, OrpoOfCertainty) {
  for (const double sure : {0.0, -1e-14, -1e-9}) {
    const Step step{{sure, -3.0, -2.0, sure}, {0, 0, 0, 0}, {2, 2, 2, 2}};
    const PreferenceOutcome outcome = RunStep(*Make({.loss = "orpo"}), step, 1, Whole(step));
    EXPECT_TRUE(std::isfinite(outcome.loss));
    EXPECT_TRUE(at::isfinite(outcome.gradient).all().item<bool>());
  }
}

TEST(PreferenceTest, LargeMargins) {
  for (const PreferenceOptions& options : Cases()) {
    const Step step{{-1e5, -1.0, -1.0, -1e5}, {-1.0, -1e5, -1e5, -1.0}, {9, 9, 9, 9}};
    const PreferenceOutcome outcome = RunStep(*Make(options), step, 1, Whole(step));
    EXPECT_TRUE(std::isfinite(outcome.loss) && at::isfinite(outcome.gradient).all().item<bool>())
        << Describe(options);
  }
}

TEST(PreferenceTest, OptionsAreChecked) {
  const auto refused = [](PreferenceOptions options, const std::string& words) {
    EXPECT_THAT(Preference::Create(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  refused({.loss = "sigmoyd"},
          "unknown loss 'sigmoyd' (did you mean 'sigmoid'?); known: sigmoid, hinge");
  refused({.beta = 0.0}, "beta is 0, expected more than 0");
  refused({.beta = std::nan("")}, "beta is nan");
  refused({.ftx = -1}, "ftx is -1, expected 0 or more");
  refused({.loss = "hinge", .label_smoothing = 0.1},
          "label_smoothing is 0.1, expected 0: hinge has none, only sigmoid and robust have");
  refused({.label_smoothing = 0.6}, "label_smoothing is 0.6, expected 0 to 0.5 for sigmoid");
  refused({.loss = "robust", .label_smoothing = 0.5},
          "label_smoothing is 0.5, expected 0 to less than 0.5 for robust");
  refused({.loss = "orpo", .bco_weight = 0.1},
          "bco_weight is 0.1, expected 0: BCO compares with a reference model, and orpo has none");
}

void ExpectThrows(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    FAIL() << "nothing was thrown; expected: " << words;
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(PreferenceTest, BatchesAreChecked) {
  const auto dpo = Make({});
  const at::Tensor four = at::full({4}, -1.0, at::kDouble);
  ExpectThrows(
      [&] {
        dpo->Loss({four, {}, four, {}, {0, 1}});
      },
      "sigmoid needs the reference's log-probs, none were given");
  ExpectThrows(
      [&] {
        dpo->Loss({four.narrow(0, 0, 3), four, four, {}, {}});
      },
      "policy [3] of Double, expected a floating type [2 x pairs]");
  ExpectThrows(
      [&] {
        dpo->Loss({four, four.narrow(0, 0, 2), four, {}, {}});
      },
      "reference of shape [2], policy of shape [4]");
  const auto pair = Make({.loss = "kto_pair"});
  ExpectThrows(
      [&] {
        pair->Loss({four, four, four, {}, {0, 1}});
      },
      "an example at place 0 of the step, the survey saw 0 examples");
  pair->Survey(four, four, four, 2);
  pair->Loss({four, four, four, {}, {0, 1}});
  ExpectThrows([&] { pair->Loss({four, four, four, {}, {0}}); }, "1 places of 2 pairs");
  ExpectThrows([&] { pair->Survey(four, four, four, 0); }, "groups of 0 examples");
}

}  // namespace
}  // namespace moonring::objectives
