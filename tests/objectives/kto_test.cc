#include "objectives/kto.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace moonring::objectives {
namespace {

using moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kExamples = 7, kGroup = 3;
const std::vector<double> kPolicy = {-3.0, -5.5, -2.0, -8.0, -1.0, -4.0, -6.5},
                          kReference = {-3.5, -4.0, -2.5, -7.0, -1.5, -4.25, -6.0};
const std::vector<double> kTargets = {3, 4, 2, 9, 1, 5, 6};
// Values of mismatched documents in groups whose mean log-ratio is above, below and above 0.
const std::vector<double> kOther = {-2.0, -3.0, -4.0, -9.0, -8.0, -7.5, -1.0},
                          kOtherReference = {-3.0, -2.5, -5.0, -8.0, -7.0, -8.0, -1.75};
const std::vector<bool> kDesirable = {true, false, false, true, false, true, true};

at::Tensor KtoNumbers(const std::vector<double>& numbers) {
  return at::tensor(numbers, at::kDouble);
}

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

double GroupDivergence(int64_t group) {
  double sum = 0;
  const int64_t begin = group * kGroup, end = std::min(kExamples, begin + kGroup);
  for (int64_t i = begin; i < end; ++i) sum += kOther[i] - kOtherReference[i];
  return std::max(0.0, sum / static_cast<double>(end - begin));
}

double KtoClosedForm(const KtoOptions& o, const std::vector<double>& policy) {
  double total = 0;
  for (int64_t i = 0; i < kExamples; ++i) {
    const double ratio = policy[i] - kReference[i], kl = GroupDivergence(i / kGroup);
    total += kDesirable[i] ? o.chosen_weight * (1 - Logistic(o.beta * (ratio - kl))) -
                                 o.ftx * policy[i] / kTargets[i]
                           : o.rejected_weight * (1 - Logistic(o.beta * (kl - ratio)));
  }
  return total;
}

struct KtoOutcome {
  double loss = 0;
  at::Tensor gradient;
  Metrics metrics;
};

KtoOutcome RunKtoStep(const KtoOptions& options,
                      const std::vector<std::vector<int64_t>>& micro_batches) {
  const auto kto = *Kto::Create(options);
  KtoOutcome outcome;
  outcome.metrics = kto->Survey(KtoNumbers(kOther), KtoNumbers(kOtherReference), kGroup);
  at::Tensor policy = KtoNumbers(kPolicy).requires_grad_();
  for (const std::vector<int64_t>& places : micro_batches) {
    const at::Tensor rows = at::tensor(places, at::kLong);
    const auto of = [&](const std::vector<double>& all) {
      return KtoNumbers(all).index_select(0, rows);
    };
    KtoBatch batch{
        policy.index_select(0, rows), of(kReference), of(kTargets), 2.0 * of(kTargets), {}, places};
    for (const int64_t place : places) batch.desirable.push_back(kDesirable[place]);
    const Sums sums = kto->Loss(batch);
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

const std::vector<KtoOptions> kCases = {
    {}, {.beta = 0.9}, {.beta = 0.4, .chosen_weight = 1.3, .rejected_weight = 0.5}, {.ftx = 0.6}};

// The loss equals its closed form, and the gradient its differences. Everything is in fp64: 1e-13
// allows some hundred roundings; differences with steps of 1e-5 have an error of 1e-10.
TEST(KtoTest, EqualsTheClosedFormAndItsDifferences) {
  constexpr double kStep = 1e-5;
  for (const KtoOptions& options : kCases) {
    const KtoOutcome ours = RunKtoStep(options, {{0, 1, 2, 3, 4, 5, 6}});
    EXPECT_NEAR(ours.loss, KtoClosedForm(options, kPolicy), 1e-13);
    for (int64_t i = 0; i < kExamples; ++i) {
      std::vector<double> up = kPolicy, down = kPolicy;
      up[i] += kStep;
      down[i] -= kStep;
      EXPECT_NEAR(ours.gradient[i].item<double>(),
                  (KtoClosedForm(options, up) - KtoClosedForm(options, down)) / (2 * kStep), 1e-9)
          << i;
    }
  }
}

TEST(KtoTest, TheSplitDoesNotMatter) {
  for (const KtoOptions& options : kCases) {
    const KtoOutcome whole = RunKtoStep(options, {{0, 1, 2, 3, 4, 5, 6}});
    for (const std::vector<std::vector<int64_t>>& split :
         std::vector<std::vector<std::vector<int64_t>>>{{{6, 0}, {}, {4, 1, 2, 5}, {3}},
                                                        {{0}, {1}, {2}, {3}, {4}, {5}, {6}}}) {
      const KtoOutcome parts = RunKtoStep(options, split);
      EXPECT_NEAR(parts.loss, whole.loss, 1e-13);
      EXPECT_TRUE(at::equal(parts.gradient, whole.gradient));
      for (const auto& [name, metric] : whole.metrics) {
        EXPECT_NEAR(parts.metrics.at(name).sum, metric.sum, 1e-12) << name;
        EXPECT_EQ(parts.metrics.at(name).count, metric.count) << name;
      }
    }
  }
}

TEST(KtoTest, MetricsOfEachSide) {
  const Metrics metrics = RunKtoStep({.beta = 0.5}, {{0, 1, 2, 3, 4, 5, 6}}).metrics;
  EXPECT_EQ(metrics.at("rewards/chosen").count, 4);
  EXPECT_NEAR(metrics.at("rewards/chosen").sum, 0.5 * (0.5 - 1.0 + 0.25 - 0.5), 1e-15);
  EXPECT_EQ(metrics.at("logps/rejected").count, 3);
  EXPECT_EQ(metrics.at("logps/rejected").sum, -5.5 - 2.0 - 1.0);
  EXPECT_EQ(metrics.at("logits/chosen").count, 3 + 9 + 5 + 6);
  EXPECT_EQ(metrics.at("logits/chosen").sum, 2.0 * (3 + 9 + 5 + 6));
  EXPECT_EQ(metrics.at("kl").count, 3);
  EXPECT_NEAR(metrics.at("kl").sum, GroupDivergence(0) + GroupDivergence(2), 1e-15);
  EXPECT_EQ(GroupDivergence(1), 0.0);
  EXPECT_EQ(metrics.size(), 7);
}

TEST(KtoTest, NothingAndNoTargets) {
  const auto kto = *Kto::Create({.ftx = 0.5});
  EXPECT_EQ(kto->Survey(at::empty({0}, at::kDouble), at::empty({0}, at::kDouble), 4).at("kl").count,
            0);
  at::Tensor policy = at::empty({0}, at::kDouble).requires_grad_();
  const Sums none = kto->Loss({policy, policy.detach(), policy.detach(), {}, {}, {}});
  none.loss.backward();
  EXPECT_EQ(none.loss.item<double>(), 0.0);
  EXPECT_EQ(none.metrics.at("rewards/chosen").count, 0);

  const at::Tensor zero = at::zeros({1}, at::kDouble);
  kto->Survey(zero, zero, 4);
  at::Tensor no_answer = at::zeros({1}, at::kDouble).requires_grad_();
  const Sums sums = kto->Loss({no_answer, zero, zero, {}, {true}, {0}});
  sums.loss.backward();
  EXPECT_EQ(sums.loss.item<double>(), 0.5);
  EXPECT_TRUE(at::isfinite(no_answer.grad()).all().item<bool>());
}

TEST(KtoTest, OptionsAndBatchesAreChecked) {
  const auto refused = [](KtoOptions options, const std::string& words) {
    EXPECT_THAT(Kto::Create(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  refused({.beta = -0.1}, "objectives.kto: beta is -0.1, expected more than 0");
  refused({.rejected_weight = -1}, "rejected_weight is -1, expected 0 or more");
  refused({.ftx = std::nan("")}, "ftx is nan");
  const auto kto = *Kto::Create({});
  const at::Tensor two = at::zeros({2}, at::kDouble);
  EXPECT_THROW(kto->Loss({two, two, two, {}, {true, false}, {0, 1}}), c10::Error);  // no Survey
  kto->Survey(two, two, 2);
  kto->Loss({two, two, two, {}, {true, false}, {0, 1}});
  EXPECT_THROW(kto->Loss({two, two, two, {}, {true}, {0, 1}}), c10::Error);
  EXPECT_THROW(kto->Loss({two, two.narrow(0, 0, 1), two, {}, {true, false}, {0, 1}}), c10::Error);
  EXPECT_THROW(kto->Loss({two, two, two, {}, {true, false}, {0, 2}}), c10::Error);
}

}  // namespace
}  // namespace moonring::objectives
