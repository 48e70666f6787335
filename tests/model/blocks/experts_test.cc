#include "model/blocks/experts.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/products/gradient_sum.h"
#include "model/blocks/router.h"
#include "tests/testing/all_close.h"
#include "tests/testing/finite_differences.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::RelativeError;

constexpr int64_t kHidden = 6, kExperts = 5, kInner = 4, kShared = 3;
// Bound for the same sums in fp64 in another order.
constexpr double kSame = 1e-13;

at::Tensor RandomNumbers(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

struct Mixture {
  ExpertRule rule;
  ExpertMaps maps;
  Activation activation = Activation::kSilu;

  MixtureResult operator()(const at::Tensor& x, const RouterGroups& groups = {}) const {
    return MixExperts(rule, activation, maps, x, groups);
  }

  // Returns all weights that exist.
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> all = {maps.router.weight_OI};
    for (const GatedMaps& expert : maps.experts)
      all.insert(all.end(), {expert.gate.weight_OI, expert.up.weight_OI, expert.down.weight_OI});
    if (rule.shared > 0)
      all.insert(all.end(), {maps.shared.gate.weight_OI, maps.shared.up.weight_OI,
                             maps.shared.down.weight_OI, maps.shared_switch.weight_OI});
    return all;
  }
};

Mixture RandomMixture(int64_t chosen, bool normalised, bool shared) {
  Mixture mixture;
  mixture.rule = {.count = kExperts,
                  .chosen = chosen,
                  .intermediate = kInner,
                  .shared = shared ? kShared : 0,
                  .normalised = normalised};
  const auto gated = [](int64_t inner) {
    GatedMaps maps;
    maps.gate.weight_OI = RandomNumbers({inner, kHidden}).requires_grad_();
    maps.up.weight_OI = RandomNumbers({inner, kHidden}).requires_grad_();
    maps.down.weight_OI = RandomNumbers({kHidden, inner}).requires_grad_();
    return maps;
  };
  mixture.maps.router.weight_OI = RandomNumbers({kExperts, kHidden}).requires_grad_();
  for (int64_t e = 0; e < kExperts; ++e) mixture.maps.experts.push_back(gated(kInner));
  if (shared) {
    mixture.maps.shared = gated(kShared);
    mixture.maps.shared_switch.weight_OI = RandomNumbers({1, kHidden}).requires_grad_();
  }
  return mixture;
}

// Computes the header's formula for one token, one expert and one feature at a time, in plain
// doubles. `map(which, token, x)` applies a linear map: expert e has the maps 3 e (gate), 3 e + 1
// (up) and 3 e + 2 (down), followed by those of the shared expert.
using Row = std::vector<double>;

Row Product(const at::Tensor& weight, const Row& x) {
  Row y(weight.size(0), 0.0);
  const at::Tensor w = weight.detach().contiguous();
  for (int64_t o = 0; o < w.size(0); ++o) {
    for (int64_t i = 0; i < w.size(1); ++i)
      y[o] += w.const_data_ptr<double>()[o * w.size(1) + i] * x[i];
  }
  return y;
}

double Act(double x, Activation activation) {
  return activation == Activation::kSilu ? x / (1 + std::exp(-x))
                                         : x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
}

Row Gated(const GatedMaps& maps, const Row& x, Activation activation) {
  Row gate = Product(maps.gate.weight_OI, x);
  const Row up = Product(maps.up.weight_OI, x);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = Act(gate[i], activation) * up[i];
  return Product(maps.down.weight_OI, gate);
}

struct ByFormula {
  at::Tensor out;          // [T, D]
  at::Tensor probability;  // [T, E]
  at::Tensor chosen;       // [T, E], 0 or 1
};

ByFormula Formula(const Mixture& mixture, const at::Tensor& x_TD) {
  const int64_t tokens = x_TD.size(0);
  ByFormula result{at::zeros({tokens, kHidden}, at::kDouble),
                   at::zeros({tokens, kExperts}, at::kDouble),
                   at::zeros({tokens, kExperts}, at::kLong)};
  for (int64_t t = 0; t < tokens; ++t) {
    const at::Tensor row = x_TD[t].detach().contiguous();
    const Row x(row.const_data_ptr<double>(), row.const_data_ptr<double>() + kHidden);
    Row p = Product(mixture.maps.router.weight_OI, x);
    double sum = 0;
    for (double& value : p) sum += value = std::exp(value);
    for (double& value : p) value /= sum;
    std::vector<int> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return p[a] > p[b]; });
    order.resize(mixture.rule.chosen);
    double share = 0;
    for (const int e : order) share += p[e];
    Row y(kHidden, 0.0);
    for (const int e : order) {
      const Row out = Gated(mixture.maps.experts[e], x, mixture.activation);
      const double weight = mixture.rule.normalised ? p[e] / share : p[e];
      for (int64_t i = 0; i < kHidden; ++i) y[i] += weight * out[i];
      result.chosen[t][e] = 1;
    }
    if (mixture.rule.shared > 0) {
      const Row out = Gated(mixture.maps.shared, x, mixture.activation);
      const double open = 1 / (1 + std::exp(-Product(mixture.maps.shared_switch.weight_OI, x)[0]));
      for (int64_t i = 0; i < kHidden; ++i) y[i] += open * out[i];
    }
    result.out[t].copy_(at::tensor(y, at::kDouble));
    result.probability[t].copy_(at::tensor(p, at::kDouble));
  }
  return result;
}

class ExpertsTest : public ::testing::Test {
 protected:
  ExpertsTest() : threads_(at::get_num_threads()) { at::manual_seed(7); }
  ~ExpertsTest() override { at::set_num_threads(threads_); }

  int threads_;
};

TEST_F(ExpertsTest, IsItsFormula) {
  for (const int64_t chosen : {int64_t{1}, int64_t{2}, kExperts}) {
    for (const bool normalised : {false, true}) {
      for (const bool shared : {false, true}) {
        for (const Activation activation : {Activation::kSilu, Activation::kGelu}) {
          for (const int64_t tokens : {0, 1, 37}) {
            SCOPED_TRACE(::testing::Message()
                         << chosen << " chosen, normalised " << normalised << ", shared " << shared
                         << ", " << tokens << " tokens");
            Mixture mixture = RandomMixture(chosen, normalised, shared);
            mixture.activation = activation;
            const at::Tensor x = RandomNumbers({tokens, kHidden});
            EXPECT_TRUE(RelativeError(mixture(x).out_TD, Formula(mixture, x).out, kSame));
          }
        }
      }
    }
  }
}

TEST_F(ExpertsTest, Gradients) {
  for (const bool normalised : {false, true}) {
    for (const bool shared : {false, true}) {
      const Mixture mixture = RandomMixture(2, normalised, shared);
      // Groups of unequal sizes, one of them without tokens.
      const RouterGroups groups{at::tensor({0, 2, 0, 0, 2, 0, 2}, at::kLong), 3};
      const at::Tensor x = RandomNumbers({7, kHidden}).requires_grad_(),
                       dy = RandomNumbers({7, kHidden}), dp = RandomNumbers({3, kExperts});
      const auto value = [&] {
        const MixtureResult result = mixture(x, groups);
        return (result.out_TD * dy).sum() + (result.tally.probability_GE * dp).sum();
      };
      std::vector<at::Tensor> leaves = mixture.weights();
      leaves.push_back(x);
      const auto gradients =
          torch::autograd::grad({value()}, leaves, {}, std::nullopt, false, /*allow_unused=*/true);
      for (size_t i = 0; i < leaves.size(); ++i) {
        const at::Tensor wanted =
            FiniteDifferences([&] { return value().item<double>(); }, leaves[i]);
        EXPECT_TRUE(RelativeError(gradients[i].defined() ? gradients[i] : at::zeros_like(leaves[i]),
                                  wanted, kDifferenceBound))
            << "leaf " << i;
      }
    }
  }
}

// Experts without gates that get the hidden states through a linear map, and a shared expert that
// gets them directly. The reference applies every expert to every token and ignores the results of
// experts that the router did not choose.
TEST_F(ExpertsTest, WithoutGatesBehindAMap) {
  constexpr int64_t kWidth = 3;
  Mixture mixture = RandomMixture(2, /*normalised=*/true, /*shared=*/true);
  mixture.activation = Activation::kReluSquared;
  mixture.rule.width = kWidth;
  ExpertMaps& maps = mixture.maps;
  const auto map = [](int64_t out, int64_t in) {
    return RandomNumbers({out, in}).requires_grad_();
  };
  maps.input.weight_OI = map(kWidth, kHidden);
  maps.output.weight_OI = map(kHidden, kWidth);
  maps.shared_switch = {};
  maps.shared.up = {};
  const at::Tensor x = RandomNumbers({23, kHidden}).requires_grad_(),
                   dy = RandomNumbers({23, kHidden});
  std::vector<at::Tensor> leaves = {x,
                                    maps.router.weight_OI,
                                    maps.input.weight_OI,
                                    maps.output.weight_OI,
                                    maps.shared.gate.weight_OI,
                                    maps.shared.down.weight_OI};
  for (GatedMaps& expert : maps.experts) {
    expert.gate.weight_OI = map(kInner, kWidth);
    expert.down.weight_OI = map(kWidth, kInner);
    expert.up = {};
    leaves.insert(leaves.end(), {expert.gate.weight_OI, expert.down.weight_OI});
  }
  const auto mlp = [](const GatedMaps& of, const at::Tensor& in) {
    return at::matmul(in, of.gate.weight_OI.t()).clamp_min(0).pow(2).matmul(of.down.weight_OI.t());
  };
  const at::Tensor p = at::matmul(x, maps.router.weight_OI.t()).softmax(-1);
  const at::Tensor mask =
      at::zeros_like(p).scatter_(1, std::get<1>(at::topk(p.detach(), 2, -1)), 1.0);
  const at::Tensor weight = p * mask / (p * mask).sum(1, true);
  const at::Tensor z = at::matmul(x, maps.input.weight_OI.t());
  at::Tensor sum = at::zeros({23, kWidth}, at::kDouble);
  for (int64_t e = 0; e < kExperts; ++e)
    sum = sum + weight.narrow(1, e, 1) * mlp(maps.experts[e], z);
  const at::Tensor wanted = at::matmul(sum, maps.output.weight_OI.t()) + mlp(maps.shared, x);

  const at::Tensor out = mixture(x).out_TD;
  EXPECT_TRUE(RelativeError(out, wanted, kSame));
  const auto ours = torch::autograd::grad({out}, leaves, {dy}),
             theirs = torch::autograd::grad({wanted}, leaves, {dy});
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(RelativeError(ours[i], theirs[i], 1e-12)) << i;
}

// All tokens are routed to one expert, because the router's logits depend on one feature only. The
// other experts' weights get no gradient, or zeros.
TEST_F(ExpertsTest, OneExpertTakesAll) {
  for (const int64_t chosen : {1, 2}) {
    Mixture mixture = RandomMixture(chosen, /*normalised=*/false, /*shared=*/false);
    at::Tensor router = at::zeros({kExperts, kHidden}, at::kDouble);
    router[3][0] = 9.0;
    router[1][0] = 8.0;
    mixture.maps.router.weight_OI = router.requires_grad_();
    at::Tensor x = RandomNumbers({11, kHidden});
    x.select(1, 0).abs_().add_(1.0);
    const MixtureResult result = mixture(x, {at::zeros({11}, at::kLong), 1});
    EXPECT_TRUE(RelativeError(result.out_TD, Formula(mixture, x).out, kSame));
    EXPECT_EQ(result.tally.chosen_GE[0][3].item<int64_t>(), 11);
    EXPECT_EQ(result.tally.chosen_GE[0][1].item<int64_t>(), chosen == 2 ? 11 : 0);
    EXPECT_EQ(result.tally.chosen_GE.sum().item<int64_t>(), 11 * chosen);
    const auto gradients = torch::autograd::grad({result.out_TD.sum()}, mixture.weights(), {},
                                                 std::nullopt, false, /*allow_unused=*/true);
    for (int64_t e = 0; e < kExperts; ++e) {
      for (int64_t map = 0; map < 3; ++map) {
        const at::Tensor& gradient = gradients[1 + 3 * e + map];
        const bool some = gradient.defined() && gradient.abs().sum().item<double>() > 0;
        EXPECT_EQ(some, e == 3 || (e == 1 && chosen == 2)) << e;
      }
    }
  }
}

TEST_F(ExpertsTest, NoRowsGiveNoGradients) {
  const Mixture mixture = RandomMixture(2, /*normalised=*/true, /*shared=*/true);
  const at::Tensor x = at::empty({0, kHidden}, at::kDouble).requires_grad_();
  const MixtureResult result = mixture(x, {at::empty({0}, at::kLong), 2});
  EXPECT_EQ(result.out_TD.sizes(), x.sizes());
  EXPECT_TRUE(
      BitEqual(result.tally.probability_GE.detach(), at::zeros({2, kExperts}, at::kDouble)));
  EXPECT_TRUE(BitEqual(result.tally.chosen_GE, at::zeros({2, kExperts}, at::kLong)));
  std::vector<at::Tensor> leaves = mixture.weights();
  leaves.push_back(x);
  const auto gradients =
      torch::autograd::grad({result.out_TD.sum() + result.tally.probability_GE.sum()}, leaves, {},
                            std::nullopt, false, /*allow_unused=*/true);
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_EQ(gradients[i].defined() ? gradients[i].abs().sum().item<double>() : 0.0, 0.0) << i;
}

// Experts that run in parallel on two threads give equal results: the products are the same, but
// split differently if one expert has most of the rows.
TEST_F(ExpertsTest, ThreadsGiveEqualResults) {
  for (const bool skewed : {false, true}) {
    Mixture mixture = RandomMixture(2, /*normalised=*/true, /*shared=*/false);
    if (skewed) {
      const at::Tensor router = mixture.maps.router.weight_OI.detach().clone();
      router[0].add_(3.0);
      mixture.maps.router.weight_OI = router.requires_grad_();
    }
    at::Tensor x = RandomNumbers({200, kHidden});
    if (skewed) x = x.abs();
    const at::Tensor leaf = x.requires_grad_(), dy = RandomNumbers({200, kHidden});
    std::vector<at::Tensor> leaves = mixture.weights();
    leaves.push_back(leaf);
    const auto run = [&](int threads) {
      at::set_num_threads(threads);
      const at::Tensor out = mixture(leaf).out_TD;
      auto results =
          torch::autograd::grad({out}, leaves, {dy}, std::nullopt, false, /*allow_unused=*/true);
      results.push_back(out.detach());
      return results;
    };
    const auto one = run(1), two = run(2), again = run(2);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(RelativeError(two[i], one[i], kSame)) << i;
      EXPECT_TRUE(BitEqual(two[i], again[i])) << i;
    }
  }
}

TEST_F(ExpertsTest, TalliesGoByGroup) {
  const Mixture mixture = RandomMixture(2, /*normalised=*/true, /*shared=*/true);
  const at::Tensor x = RandomNumbers({9, kHidden}),
                   group = at::tensor({1, 0, 1, 3, 3, 1, 0, 0, 3}, at::kLong);
  const ByFormula wanted = Formula(mixture, x);
  const MixtureResult result = mixture(x, {group, 4});
  EXPECT_EQ(result.tally.probability_GE.sizes(), at::IntArrayRef({4, kExperts}));
  for (int64_t g = 0; g < 4; ++g) {
    const at::Tensor rows = group.eq(g).nonzero().squeeze(1);
    EXPECT_TRUE(RelativeError(result.tally.probability_GE[g],
                              wanted.probability.index_select(0, rows).sum(0), kSame))
        << g;
    EXPECT_TRUE(BitEqual(result.tally.chosen_GE[g], wanted.chosen.index_select(0, rows).sum(0)))
        << g;
  }
  const MixtureResult unasked = mixture(x);
  EXPECT_FALSE(unasked.tally.probability_GE.defined());
  EXPECT_FALSE(unasked.tally.chosen_GE.defined());
  EXPECT_TRUE(BitEqual(unasked.out_TD, result.out_TD));
}

// Adapters with dropout on matrices of two experts, of the shared expert and of the router, and
// rotations (OFT) on those of two other experts. A dropout mask depends on the token, not on its
// row.
TEST_F(ExpertsTest, AdaptersWithDropout) {
  Mixture mixture = RandomMixture(2, /*normalised=*/true, /*shared=*/true);
  for (at::Tensor& weight : std::vector<at::Tensor>(mixture.weights()))
    weight.requires_grad_(false);
  const at::Tensor identity = at::arange(13, at::kLong) * 5 + 3;
  uint64_t key = 40;
  std::vector<at::Tensor> leaves;
  const auto adapt = [&](Projection& map, double rate) {
    LowRank& low = map.low_rank.emplace();
    low.a_RI = RandomNumbers({2, map.weight_OI.size(1)}).requires_grad_();
    low.b_OR = RandomNumbers({map.weight_OI.size(0), 2}).requires_grad_();
    low.scale = 0.7;
    low.dropout = {rate, ++key, identity};
    leaves.insert(leaves.end(), {low.a_RI, low.b_OR});
  };
  adapt(mixture.maps.experts[1].gate, 0.3);
  adapt(mixture.maps.experts[1].down, 0.3);
  adapt(mixture.maps.experts[4].up, 0.3);
  adapt(mixture.maps.shared.up, 0.3);
  adapt(mixture.maps.router, 0.3);
  for (Projection* map : {&mixture.maps.experts[0].down, &mixture.maps.experts[3].gate}) {
    const int64_t width = map->weight_OI.size(1);
    map->rotation =
        BlockRotation{(RandomNumbers({1, width * (width - 1) / 2}) * 0.1).requires_grad_(), 5};
    leaves.push_back(map->rotation->skew_NE);
  }

  // The reference applies every expert to every token and ignores the results of experts that the
  // router did not choose. (Project itself is tested by projection_test.cc.)
  const at::Tensor x = RandomNumbers({13, kHidden}).requires_grad_(),
                   dy = RandomNumbers({13, kHidden});
  const at::Tensor p = Project(mixture.maps.router, x).softmax(-1);
  const at::Tensor chosen = std::get<1>(at::topk(p.detach(), 2, -1));
  const at::Tensor mask = at::zeros_like(p).scatter_(1, chosen, 1.0),
                   weight = p * mask / (p * mask).sum(1, true);
  const auto gated = [&](const GatedMaps& maps) {
    return ProjectGated(maps.down, Project(maps.gate, x), Project(maps.up, x), mixture.activation);
  };
  at::Tensor wanted =
      at::sigmoid(Project(mixture.maps.shared_switch, x)) * gated(mixture.maps.shared);
  for (int64_t e = 0; e < kExperts; ++e)
    wanted = wanted + weight.narrow(1, e, 1) * gated(mixture.maps.experts[e]);

  const at::Tensor out = mixture(x).out_TD;
  EXPECT_TRUE(RelativeError(out, wanted, kSame));
  leaves.push_back(x);
  const auto ours = torch::autograd::grad({out}, leaves, {dy}),
             theirs = torch::autograd::grad({wanted}, leaves, {dy});
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(RelativeError(ours[i], theirs[i], 1e-12)) << i;
  // The tokens in another order; each keeps the id that seeds its dropout.
  const at::Tensor order = at::randperm(13, at::kLong);
  for (GatedMaps& maps : mixture.maps.experts) {
    for (Projection* map : {&maps.gate, &maps.up, &maps.down}) {
      if (map->low_rank.has_value())
        map->low_rank->dropout.identity_T = identity.index_select(0, order);
    }
  }
  mixture.maps.shared.up.low_rank->dropout.identity_T =
      mixture.maps.router.low_rank->dropout.identity_T = identity.index_select(0, order);
  EXPECT_TRUE(
      RelativeError(mixture(x.index_select(0, order)).out_TD, out.index_select(0, order), kSame));
}

// A mixture with adapters, in which some experts get no rows.
TEST_F(ExpertsTest, AdaptersWithoutRows) {
  Mixture mixture = RandomMixture(2, /*normalised=*/true, /*shared=*/false);
  for (at::Tensor& weight : std::vector<at::Tensor>(mixture.weights()))
    weight.requires_grad_(false);
  LowRank& low = mixture.maps.experts[2].up.low_rank.emplace();
  low.a_RI = RandomNumbers({2, kHidden}).requires_grad_();
  low.b_OR = RandomNumbers({kInner, 2}).requires_grad_();
  low.dropout = {0.5, 3, at::empty({0}, at::kLong)};
  const at::Tensor x = at::empty({0, kHidden}, at::kDouble).requires_grad_();
  const at::Tensor out = mixture(x).out_TD;
  EXPECT_EQ(out.sizes(), x.sizes());
  EXPECT_EQ(torch::autograd::grad({out.sum()}, {x})[0].sizes(), x.sizes());
}

TEST_F(ExpertsTest, RefusesWhatDoesNotFit) {
  Mixture mixture = RandomMixture(2, false, false);
  const at::Tensor x = RandomNumbers({4, kHidden});
  EXPECT_THROW(mixture(x, {at::zeros({3}, at::kLong), 1}), c10::Error);
  mixture.rule.chosen = kExperts + 1;
  EXPECT_THROW(mixture(x), c10::Error);
  mixture.rule.chosen = 2;
  mixture.rule.count = kExperts - 1;
  EXPECT_THROW(mixture(x), c10::Error);
}

constexpr ExpertStorage kInTwoTensors[] = {ExpertStorage::kStacked, ExpertStorage::kTransposed,
                                           ExpertStorage::kTransposedHalves};

// Returns the same experts stacked in two tensors, in the layout `storage`, with biases if the rule
// has them.
Mixture Stacked(const Mixture& each, ExpertStorage storage) {
  Mixture stacked = each;
  stacked.rule.storage = storage;
  stacked.maps.experts.clear();
  std::vector<at::Tensor> both, down;
  for (const GatedMaps& expert : each.maps.experts) {
    const at::Tensor gate = expert.gate.weight_OI.detach(), up = expert.up.weight_OI.detach();
    const at::Tensor rows = storage == ExpertStorage::kTransposed
                                ? at::stack({gate, up}, 1).reshape({2 * kInner, kHidden})
                                : at::cat({gate, up});
    both.push_back(IsTransposed(storage) ? rows.t() : rows);
    down.push_back(IsTransposed(storage) ? expert.down.weight_OI.detach().t()
                                         : expert.down.weight_OI.detach());
  }
  stacked.maps.gate_up.weight_OI = at::stack(both).contiguous().requires_grad_();
  stacked.maps.down.weight_OI = at::stack(down).contiguous().requires_grad_();
  return stacked;
}

// Splits the two stacked tensors into three matrices per expert.
std::vector<at::Tensor> Unstacked(const at::Tensor& both, const at::Tensor& down,
                                  ExpertStorage storage) {
  std::vector<at::Tensor> maps;
  for (int64_t e = 0; e < kExperts; ++e) {
    const at::Tensor rows = IsTransposed(storage) ? both[e].t() : both[e],
                     last = IsTransposed(storage) ? down[e].t() : down[e];
    if (storage == ExpertStorage::kTransposed) {
      const at::Tensor turns = rows.reshape({kInner, 2, kHidden});
      maps.insert(maps.end(), {turns.select(1, 0), turns.select(1, 1), last});
    } else {
      maps.insert(maps.end(), {rows.narrow(0, 0, kInner), rows.narrow(0, kInner, kInner), last});
    }
  }
  return maps;
}

TEST_F(ExpertsTest, StackedTheyAreTheSame) {
  const Mixture each = RandomMixture(2, /*normalised=*/true, /*shared=*/true);
  // With three tokens some expert has no rows.
  for (const int64_t tokens : {0, 1, 3, 60}) {
    const at::Tensor x = RandomNumbers({tokens, kHidden}).requires_grad_(),
                     dy = RandomNumbers({tokens, kHidden});
    const at::Tensor wanted = each(x).out_TD;
    std::vector<at::Tensor> leaves = {x};
    for (const GatedMaps& expert : each.maps.experts)
      leaves.insert(leaves.end(),
                    {expert.gate.weight_OI, expert.up.weight_OI, expert.down.weight_OI});
    const auto theirs =
        torch::autograd::grad({wanted}, leaves, {dy}, std::nullopt, false, /*allow_unused=*/true);
    for (const ExpertStorage storage : kInTwoTensors) {
      for (const int threads : {1, 2}) {
        at::set_num_threads(threads);
        const Mixture stacked = Stacked(each, storage);
        const at::Tensor out = stacked(x).out_TD;
        EXPECT_TRUE(RelativeError(out, wanted, kSame));
        const auto ours = torch::autograd::grad(
            {out}, {x, stacked.maps.gate_up.weight_OI, stacked.maps.down.weight_OI}, {dy});
        EXPECT_TRUE(RelativeError(ours[0], theirs[0], kSame));
        const auto parts = Unstacked(ours[1], ours[2], storage);
        for (size_t i = 0; i < parts.size(); ++i) {
          const at::Tensor& other = theirs[i + 1];
          EXPECT_TRUE(
              RelativeError(parts[i], other.defined() ? other : at::zeros_like(parts[i]), kSame))
              << i << " of " << tokens;
        }
      }
    }
  }
}

// gpt-oss's experts: gate and up features interleaved, biases, and clamping, with values that are
// clamped.
TEST_F(ExpertsTest, ClampedWithBiases) {
  Mixture mixture = Stacked(RandomMixture(2, true, false), ExpertStorage::kTransposed);
  mixture.rule.bias = true;
  mixture.rule.clamped = {.limit = 1.5, .slope = 1.702};
  mixture.maps.router.bias_O = RandomNumbers({kExperts}).requires_grad_();
  mixture.maps.gate_up.bias_O = RandomNumbers({kExperts, 2 * kInner}).requires_grad_();
  mixture.maps.down.bias_O = RandomNumbers({kExperts, kHidden}).requires_grad_();
  const at::Tensor x = RandomNumbers({23, kHidden}).requires_grad_(),
                   dy = RandomNumbers({23, kHidden});
  // The reference applies every expert to every token and ignores the results of experts that were
  // not chosen.
  const at::Tensor logits =
      at::linear(x, mixture.maps.router.weight_OI, mixture.maps.router.bias_O);
  const auto [top, chosen] = at::topk(logits, 2, -1);
  const at::Tensor weight = at::zeros_like(logits).scatter(1, chosen, top.softmax(-1));
  at::Tensor wanted = at::zeros_like(x);
  int64_t bounded = 0;
  for (int64_t e = 0; e < kExperts; ++e) {
    const at::Tensor both =
        at::matmul(x, mixture.maps.gate_up.weight_OI[e]) + mixture.maps.gate_up.bias_O[e];
    const at::Tensor given = both.view({23, kInner, 2}), gate = given.select(2, 0).clamp_max(1.5),
                     up = given.select(2, 1).clamp(-1.5, 1.5);
    bounded += (given.select(2, 0) > 1.5).sum().item<int64_t>();
    const at::Tensor product = (up + 1) * gate * at::sigmoid(gate * 1.702);
    const at::Tensor y =
        at::matmul(product, mixture.maps.down.weight_OI[e]) + mixture.maps.down.bias_O[e];
    wanted = wanted + weight.narrow(1, e, 1) * y;
  }
  ASSERT_GT(bounded, 20);
  const at::Tensor out = mixture(x).out_TD;
  EXPECT_TRUE(RelativeError(out, wanted, kSame));
  const std::vector<at::Tensor> leaves = {x,
                                          mixture.maps.router.weight_OI,
                                          mixture.maps.router.bias_O,
                                          mixture.maps.gate_up.weight_OI,
                                          mixture.maps.gate_up.bias_O,
                                          mixture.maps.down.weight_OI,
                                          mixture.maps.down.bias_O};
  const auto ours = torch::autograd::grad({out}, leaves, {dy}),
             theirs = torch::autograd::grad({wanted}, leaves, {dy});
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(RelativeError(ours[i], theirs[i], 1e-12)) << i;
}

// Gradients of stacked experts are summed in fp32 over two runs, although products are in bf16;
// none goes through autograd.
TEST_F(ExpertsTest, StackedGradientsAreAddedUp) {
  const Mixture each = RandomMixture(2, true, false);
  for (const ExpertStorage storage : kInTwoTensors) {
    Mixture exact = Stacked(each, storage), rounded = exact;
    const auto leaf = [](Projection& map) {
      map.weight_OI = map.weight_OI.detach().to(at::kBFloat16).requires_grad_();
      map.sum = std::make_shared<kernels::GradientSum>(at::kFloat);
    };
    leaf(rounded.maps.gate_up);
    leaf(rounded.maps.down);
    leaf(rounded.maps.router);
    for (Projection* map : {&exact.maps.gate_up, &exact.maps.down, &exact.maps.router})
      map->weight_OI = map->weight_OI.detach().to(at::kBFloat16).to(at::kDouble).requires_grad_();
    const std::vector<at::Tensor> leaves = {exact.maps.gate_up.weight_OI,
                                            exact.maps.down.weight_OI};
    std::vector<at::Tensor> wanted = {at::zeros_like(leaves[0]), at::zeros_like(leaves[1])};
    for (int run = 0; run < 2; ++run) {
      const at::Tensor x = RandomNumbers({9, kHidden}).to(at::kBFloat16),
                       dy = RandomNumbers({9, kHidden}).to(at::kBFloat16);
      const auto now =
          torch::autograd::grad({exact(x.to(at::kDouble)).out_TD}, leaves, {dy.to(at::kDouble)});
      for (size_t i = 0; i < 2; ++i) wanted[i] = wanted[i] + now[i];
      const auto none = torch::autograd::grad(
          {rounded(x).out_TD}, {rounded.maps.gate_up.weight_OI, rounded.maps.down.weight_OI}, {dy},
          std::nullopt, false, /*allow_unused=*/true);
      EXPECT_FALSE(none[0].defined() || none[1].defined());
    }
    EXPECT_TRUE(RelativeError(rounded.maps.gate_up.sum->Take().to(at::kDouble), wanted[0], 2e-2));
    EXPECT_TRUE(RelativeError(rounded.maps.down.sum->Take().to(at::kDouble), wanted[1], 2e-2));
  }
}

// With sigmoid scores, the correction bias and the groups affect the choice of experts, but not
// their weights in the result.
TEST_F(ExpertsTest, SigmoidRouterWithGroups) {
  constexpr int64_t kCount = 12, kGroups = 4, kBest = 2, kChosen = 3;
  ExpertRule rule{.count = kCount, .chosen = kChosen, .score = RouterScore::kSigmoid};
  rule.groups = kGroups;
  rule.chosen_groups = kBest;
  rule.scale = 2.5;
  Projection router;
  router.weight_OI = RandomNumbers({kCount, kHidden}).requires_grad_();
  const at::Tensor correction = RandomNumbers({kCount}) * 0.3,
                   x = RandomNumbers({50, kHidden}).requires_grad_();
  for (const bool normalised : {false, true}) {
    rule.normalised = normalised;
    const Routing routing = Route(rule, router, correction, x);
    const at::Tensor score = at::sigmoid(at::linear(x, router.weight_OI));
    at::Tensor weight = at::zeros({50, kChosen}, at::kDouble);
    int64_t moved = 0;
    for (int64_t t = 0; t < 50; ++t) {
      std::vector<double> s(kCount), c(kCount);
      for (int64_t e = 0; e < kCount; ++e) {
        s[e] = score[t][e].item<double>();
        c[e] = s[e] + correction[e].item<double>();
      }
      const auto best_two = [&](int64_t g) {
        std::vector<double> of(c.begin() + 3 * g, c.begin() + 3 * g + 3);
        std::sort(of.rbegin(), of.rend());
        return of[0] + of[1];
      };
      std::vector<int64_t> groups = {0, 1, 2, 3}, all;
      std::sort(groups.begin(), groups.end(),
                [&](int64_t a, int64_t b) { return best_two(a) > best_two(b); });
      for (int64_t i = 0; i < kBest; ++i) {
        for (int64_t e = 0; e < 3; ++e) all.push_back(3 * groups[i] + e);
      }
      std::sort(all.begin(), all.end(), [&](int64_t a, int64_t b) { return c[a] > c[b]; });
      std::vector<int64_t> plain(kCount);
      std::iota(plain.begin(), plain.end(), 0);
      std::sort(plain.begin(), plain.end(), [&](int64_t a, int64_t b) { return s[a] > s[b]; });
      double sum = 0;
      for (int64_t k = 0; k < kChosen; ++k) {
        EXPECT_EQ(routing.chosen_TK[t][k].item<int64_t>(), all[k]);
        moved += plain[k] != all[k];
        sum += s[all[k]];
      }
      for (int64_t k = 0; k < kChosen; ++k)
        weight[t][k] = 2.5 * s[all[k]] / (normalised ? sum : 1.0);
    }
    EXPECT_GT(moved, 20);
    EXPECT_TRUE(RelativeError(routing.weight_TK.detach(), weight, kSame));
    EXPECT_TRUE(
        RelativeError(routing.probability_TE.sum(-1).detach(), at::ones({50}, at::kDouble), kSame));
    const at::Tensor dw = RandomNumbers({50, kChosen});
    const auto value = [&] { return (Route(rule, router, correction, x).weight_TK * dw).sum(); };
    const auto gradients = torch::autograd::grad({value()}, {router.weight_OI, x});
    const std::vector<at::Tensor> leaves = {router.weight_OI, x};
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(RelativeError(
          gradients[i], FiniteDifferences([&] { return value().item<double>(); }, leaves[i]),
          kDifferenceBound));
  }
}

// With bf16 rows, the router's product is in fp32, so that logits that would be equal after
// rounding differ.
TEST_F(ExpertsTest, WideRouter) {
  ExpertRule rule{.count = 3, .chosen = 1, .score = RouterScore::kSigmoid};
  Projection router;
  router.weight_OI =
      at::tensor({1.0, 0.001, 1.0, 0.002, 1.0, 0.003}, at::kDouble).view({3, 2}).to(at::kBFloat16);
  const at::Tensor x = at::ones({4, 2}, at::kBFloat16);
  rule.wide_router = true;
  EXPECT_TRUE(BitEqual(Route(rule, router, {}, x).chosen_TK, at::full({4, 1}, 2, at::kLong)));
  const at::Tensor weight = Route(rule, router, {}, x).weight_TK;
  EXPECT_EQ(weight.scalar_type(), at::kFloat);
  EXPECT_TRUE(RelativeError(
      weight.to(at::kDouble),
      at::sigmoid(at::matmul(x.to(at::kDouble), router.weight_OI.to(at::kDouble)[2])).unsqueeze(1),
      1e-6));
}

}  // namespace
}  // namespace moonring::model
