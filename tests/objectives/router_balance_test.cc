#include "objectives/router_balance.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/testing/all_close.h"

namespace moonring::objectives {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

// Transformers' load_balancing_loss_func (4.57, modeling_mixtral.py) without a mask, step by step,
// times the coefficient. gate_logits has one tensor per layer.
at::Tensor LoadBalancingLoss(const std::vector<at::Tensor>& gate_logits, int64_t experts,
                             int64_t top_k, double coefficient) {
  const at::Tensor routing_weights = at::cat(gate_logits).softmax(-1);
  const at::Tensor selected_experts = std::get<1>(at::topk(routing_weights, top_k, -1));
  const at::Tensor expert_mask = at::one_hot(selected_experts, experts);     // [tokens, k, E]
  const at::Tensor tokens_per_expert = expert_mask.to(at::kDouble).mean(0);  // [k, E]
  const at::Tensor router_prob_per_expert = routing_weights.mean(0);         // [E]
  return (tokens_per_expert * router_prob_per_expert.unsqueeze(0)).sum() * experts * coefficient;
}

struct Tally {
  at::Tensor probability, chosen;  // [1, E], for one group
};

Tally TallyOf(const at::Tensor& logits, int64_t top_k) {
  const at::Tensor p = logits.softmax(-1);
  return {p.sum(0, true), at::one_hot(std::get<1>(at::topk(p, top_k, -1)), p.size(1))
                              .view({-1, p.size(1)})
                              .sum(0, true)};
}

// The loss over layers with different numbers of tokens and over several micro-batches equals
// Transformers': statistics are summed first.
TEST(RouterBalanceTest, IsTransformersLoss) {
  at::manual_seed(3);
  for (const auto& [experts, top_k] : {std::pair<int64_t, int64_t>{4, 2}, {8, 1}, {6, 5}, {5, 3}}) {
    std::vector<at::Tensor> layers;
    for (const int64_t tokens : {31, 31, 31})
      layers.push_back(at::randn({tokens, experts}, at::kDouble).requires_grad_());
    const at::Tensor wanted = LoadBalancingLoss(layers, experts, top_k, 0.02);
    at::Tensor probability, chosen;
    for (const at::Tensor& layer : layers) {
      for (const at::Tensor& piece : layer.split_with_sizes({5, 0, 26})) {
        const Tally tally = TallyOf(piece, top_k);
        probability = probability.defined() ? probability + tally.probability : tally.probability;
        chosen = chosen.defined() ? chosen + tally.chosen : tally.chosen;
      }
    }
    const at::Tensor loss = (RouterWeights(chosen, top_k, 0.02) * probability).sum();
    EXPECT_TRUE(RelativeError(loss, wanted, 1e-14));  // some hundred terms in another order
    const auto ours = torch::autograd::grad({loss}, layers),
               theirs = torch::autograd::grad({wanted}, layers);
    for (size_t i = 0; i < layers.size(); ++i)
      EXPECT_TRUE(RelativeError(ours[i], theirs[i], 1e-13)) << i;
  }
}

TEST(RouterBalanceTest, EachGroupIsALossOfItsOwn) {
  at::manual_seed(4);
  const at::Tensor counts = at::randint(1, 9, {3, 4}, at::kLong) * 2;
  counts[1].zero_();  // a group without tokens
  const at::Tensor weights = RouterWeights(counts, 2, 0.5);
  EXPECT_EQ(weights.scalar_type(), at::kDouble);
  for (const int64_t g : {0, 2}) {
    const double tokens = counts[g].sum().item<double>() / 2;
    EXPECT_TRUE(RelativeError(weights[g], counts[g].to(at::kDouble) * (0.5 * 4) / (tokens * tokens),
                              1e-15));
    EXPECT_TRUE(BitEqual(weights.narrow(0, g, 1), RouterWeights(counts.narrow(0, g, 1), 2, 0.5)));
  }
  EXPECT_TRUE(BitEqual(weights[1], at::zeros({4}, at::kDouble)));
  EXPECT_TRUE(BitEqual(RouterWeights(counts.to(at::kFloat), 2, 0.5), weights));
  // For evenly distributed choices, E sum_e (K / E) (1 / E) = K, the minimum.
  const double even =
      (RouterWeights(at::full({1, 8}, 30, at::kLong), 2, 1.0) * (120.0 / 8)).sum().item<double>();
  EXPECT_DOUBLE_EQ(even, 2.0);
}

TEST(RouterBalanceTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(RouterWeights(at::ones({4}, at::kLong), 2, 1.0), c10::Error);
  EXPECT_THROW(RouterWeights(at::ones({1, 4}, at::kLong), 0, 1.0), c10::Error);
  EXPECT_THROW(RouterWeights(at::ones({1, 4}, at::kLong), 5, 1.0), c10::Error);
}

}  // namespace
}  // namespace moonring::objectives
