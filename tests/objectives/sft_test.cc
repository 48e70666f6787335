#include "objectives/sft.h"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/sequence.h"
#include "objectives/sums.h"

namespace moonring::objectives {
namespace {

constexpr int64_t kNoTarget = comm::kIgnore;

at::Tensor Ids(const std::vector<int64_t>& ids) { return at::tensor(ids, at::kLong); }

// Count with two documents. The second one begins with a label (as with train_on_prompt), which
// counts as a label but not as a prediction.
TEST(SftTest, CountsLabelsOrTargets) {
  const at::Tensor labels = Ids({kNoTarget, 4, 5, 6, 7, kNoTarget, 8});
  const std::vector<int64_t> lengths = {4, 3};
  EXPECT_EQ(Sft({SftOptions::CountBy::kLabels}).Count(labels, lengths), 5);
  EXPECT_EQ(Sft({SftOptions::CountBy::kTargets}).Count(labels, lengths), 4);
  EXPECT_EQ(comm::ShiftLabels(labels, lengths).ne(kNoTarget).sum().item<int64_t>(), 4);
  EXPECT_EQ(Sft({}).Count(labels.to(at::kInt), lengths), 5);
}

TEST(SftTest, CountsNothingInNothing) {
  for (const auto count : {SftOptions::CountBy::kLabels, SftOptions::CountBy::kTargets}) {
    EXPECT_EQ(Sft({count}).Count(at::empty({0}, at::kLong), {}), 0);
    EXPECT_EQ(Sft({count}).Count(Ids({kNoTarget}), std::vector<int64_t>{0, 1, 0}), 0);
    EXPECT_EQ(Sft({count}).Count(Ids({3}), std::vector<int64_t>{1}),
              count == SftOptions::CountBy::kLabels ? 1 : 0);
  }
  EXPECT_THROW(Sft({}).Count(at::zeros({3}, at::kLong), std::vector<int64_t>{2}), c10::Error);
  EXPECT_THROW(Sft({}).Count(at::zeros({3}), std::vector<int64_t>{3}), c10::Error);
}

TEST(SftTest, LossIsTheSumAndItsGradientMinusOne) {
  at::Tensor log_prob =
      at::tensor(std::vector<double>{-0.5, 0.0, -2.0, -0.25}, at::kFloat).requires_grad_();
  const at::Tensor targets = Ids({3, kNoTarget, 9, 1});
  const Sums sums = Sft({}).Loss(log_prob, targets);
  EXPECT_EQ(sums.loss.scalar_type(), at::kDouble);
  EXPECT_EQ(sums.loss.item<double>(), 2.75);
  EXPECT_EQ(sums.metrics.at("nll").sum, 2.75);
  EXPECT_EQ(sums.metrics.at("nll").count, 3);
  (sums.loss / 4).backward();
  EXPECT_TRUE(log_prob.grad().eq(-0.25).all().item<bool>());
  EXPECT_THROW(Sft({}).Loss(log_prob, targets.narrow(0, 0, 2)), c10::Error);
}

TEST(SftTest, ARankWithoutTokens) {
  at::Tensor log_prob = at::empty({0}).requires_grad_();
  const Sums sums = Sft({}).Loss(log_prob, at::empty({0}, at::kLong));
  EXPECT_EQ(sums.loss.item<double>(), 0.0);
  EXPECT_EQ(sums.metrics.at("nll").count, 0);
  EXPECT_EQ(sums.metrics.at("nll").sum, 0.0);
  sums.loss.backward();
}

// Sums are in fp64: a sum of many equal terms is exact, while an fp32 sum would be visibly
// different.
TEST(SftTest, SumsInFp64) {
  const at::Tensor log_prob = at::full({1 << 20}, -0.1f);
  EXPECT_EQ(Sft({}).Loss(log_prob, at::zeros({1 << 20}, at::kLong)).loss.item<double>(),
            static_cast<double>(0.1f) * (1 << 20));
}

// A token's weight is not part of the graph: the token's gradient is just its weight.
TEST(SftTest, WeightsOfTokens) {
  const std::vector<double> values = {-0.5, 0.0, -2.0, -0.25}, entropies = {1.5, 0.0, 0.0, 3.0};
  const at::Tensor targets = Ids({3, kNoTarget, 9, 1}),
                   entropy = at::tensor(entropies, at::kDouble);
  const auto weighted = [&](const SftOptions& options, const std::vector<double>& weights) {
    at::Tensor log_prob = at::tensor(values, at::kDouble).requires_grad_();
    const Sums sums = Sft(options).Loss(log_prob, targets, {}, entropy);
    sums.loss.backward();
    double wanted = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      wanted -= weights[i] * values[i];
      EXPECT_NEAR(log_prob.grad()[i].item<double>(), -weights[i], 1e-15) << i;
    }
    EXPECT_NEAR(sums.loss.item<double>(), wanted, 1e-15);
    EXPECT_EQ(sums.metrics.at("nll").sum, 2.75);
  };
  weighted({.weight = SftOptions::Weight::kDft},
           {std::exp(-0.5), 1.0, std::exp(-2.0), std::exp(-0.25)});
  weighted({.weight = SftOptions::Weight::kEaft}, {0.5, 0.0, 0.0, 1.0});
  weighted({.weight = SftOptions::Weight::kEaft, .eaft_alpha = 2.0}, {0.25, 0.0, 0.0, 1.0});
  EXPECT_THROW(Sft({.weight = SftOptions::Weight::kEaft}).Loss(entropy, targets), c10::Error);
}

TEST(SftTest, AccuracyOfTokens) {
  const at::Tensor log_prob = at::zeros({4}), targets = Ids({3, kNoTarget, 9, 1});
  const Metrics metrics = Sft({}).Loss(log_prob, targets, Ids({3, -1, 8, 1})).metrics;
  EXPECT_EQ(metrics.at("token_accuracy").sum, 2);
  EXPECT_EQ(metrics.at("token_accuracy").count, 3);
  EXPECT_FALSE(Sft({}).Loss(log_prob, targets).metrics.contains("token_accuracy"));
  EXPECT_THROW(Sft({}).Loss(log_prob, targets, Ids({3})), c10::Error);
}

}  // namespace
}  // namespace moonring::objectives
