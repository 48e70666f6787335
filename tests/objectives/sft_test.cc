#include "objectives/sft.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/sequence.h"
#include "objectives/sums.h"

namespace moonring::objectives {
namespace {

constexpr int64_t kNone = comm::kIgnore;

at::Tensor Ids(const std::vector<int64_t>& ids) { return at::tensor(ids, at::kLong); }

// Two documents; the second begins with a label (as with train_on_prompt), which is counted by labels and is no prediction.
TEST(SftTest, CountsLabelsOrTargets) {
  const at::Tensor labels = Ids({kNone, 4, 5, 6, 7, kNone, 8});
  const std::vector<int64_t> lengths = {4, 3};
  EXPECT_EQ(Sft({SftOptions::CountBy::kLabels}).Count(labels, lengths), 5);
  EXPECT_EQ(Sft({SftOptions::CountBy::kTargets}).Count(labels, lengths), 4);
  EXPECT_EQ(comm::ShiftLabels(labels, lengths).ne(kNone).sum().item<int64_t>(), 4);
  EXPECT_EQ(Sft({}).Count(labels.to(at::kInt), lengths), 5);
}

TEST(SftTest, CountsNothingInNothing) {
  for (const auto count : {SftOptions::CountBy::kLabels, SftOptions::CountBy::kTargets}) {
    EXPECT_EQ(Sft({count}).Count(at::empty({0}, at::kLong), {}), 0);
    EXPECT_EQ(Sft({count}).Count(Ids({kNone}), std::vector<int64_t>{0, 1, 0}), 0);
    EXPECT_EQ(Sft({count}).Count(Ids({3}), std::vector<int64_t>{1}), count == SftOptions::CountBy::kLabels ? 1 : 0);
  }
  EXPECT_THROW(Sft({}).Count(at::zeros({3}, at::kLong), std::vector<int64_t>{2}), c10::Error);
  EXPECT_THROW(Sft({}).Count(at::zeros({3}), std::vector<int64_t>{3}), c10::Error);
}

TEST(SftTest, LossIsTheSumAndItsGradientMinusOne) {
  at::Tensor log_prob = at::tensor(std::vector<double>{-0.5, 0.0, -2.0, -0.25}, at::kFloat).requires_grad_();
  const at::Tensor targets = Ids({3, kNone, 9, 1});
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

// Many equal terms: an fp32 sum would be off by more than its last bit, an fp64 one is exact.
TEST(SftTest, SumsInFp64) {
  const at::Tensor log_prob = at::full({1 << 20}, -0.1f);
  EXPECT_EQ(Sft({}).Loss(log_prob, at::zeros({1 << 20}, at::kLong)).loss.item<double>(), static_cast<double>(0.1f) * (1 << 20));
}

}  // namespace
}  // namespace moonring::objectives
