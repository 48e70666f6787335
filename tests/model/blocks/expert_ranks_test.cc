// A mixture whose experts are distributed over ranks equals the mixture on one rank: outputs, and
// the gradients of every weight and of the inputs.

#include <memory>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/autograd/custom_function.h"
#include "base/autograd/parameter.h"
#include "comm/bin_exchange.h"
#include "model/blocks/block_runner.h"
#include "model/blocks/experts.h"
#include "model/blocks/transformer_block.h"
#include "model/mixers/mixers.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::MaskedAttention;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunRanks;

constexpr int64_t kRankHidden = 6, kRankInner = 4, kRankShared = 3;
constexpr double kSameOnRanks = 1e-12;

at::Tensor RandomDoubles(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

// The weights of a mixture of experts: `common` (router and shared expert), which every rank has,
// and the experts' weights.
struct Weights {
  std::vector<at::Tensor> common, experts;
};

Weights RandomWeights(const ExpertRule& rule) {
  Weights weights;
  const int64_t count = rule.count;
  weights.common = {RandomDoubles({count, kRankHidden}), RandomDoubles({count}),
                    RandomDoubles({kRankShared, kRankHidden}),
                    RandomDoubles({kRankShared, kRankHidden}),
                    RandomDoubles({kRankHidden, kRankShared})};
  if (rule.storage == ExpertStorage::kEach) {
    for (int64_t e = 0; e < count; ++e) {
      weights.experts.insert(weights.experts.end(), {RandomDoubles({kRankInner, kRankHidden}),
                                                     RandomDoubles({kRankInner, kRankHidden}),
                                                     RandomDoubles({kRankHidden, kRankInner})});
    }
    return weights;
  }
  const bool turned = IsTransposed(rule.storage);
  weights.experts = {turned ? RandomDoubles({count, kRankHidden, 2 * kRankInner})
                            : RandomDoubles({count, 2 * kRankInner, kRankHidden}),
                     turned ? RandomDoubles({count, kRankInner, kRankHidden})
                            : RandomDoubles({count, kRankHidden, kRankInner})};
  if (rule.bias) {
    weights.experts.push_back(RandomDoubles({count, 2 * kRankInner}));
    weights.experts.push_back(RandomDoubles({count, kRankHidden}));
  }
  return weights;
}

// Returns one rank's share of the experts' tensors: `count` whole experts from `first` on.
std::vector<at::Tensor> PartOf(const ExpertRule& rule, const std::vector<at::Tensor>& experts,
                               int64_t first, int64_t count) {
  std::vector<at::Tensor> part;
  for (size_t i = 0; i < experts.size(); ++i) {
    if (rule.storage != ExpertStorage::kEach) {
      part.push_back(experts[i].narrow(0, first, count));
      continue;
    }
    const int64_t e = static_cast<int64_t>(i) / 3;
    part.push_back(e >= first && e < first + count ? experts[i] : experts[i].narrow(0, 0, 0));
  }
  return part;
}

std::vector<at::Tensor> Leaves(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& tensor : tensors)
    leaves.push_back(tensor.detach().clone().requires_grad_());
  return leaves;
}

ExpertMaps MapsOf(const ExpertRule& rule, const Weights& weights) {
  ExpertMaps maps;
  maps.router.weight_OI = weights.common[0];
  maps.router.bias_O = weights.common[1];
  maps.shared.gate.weight_OI = weights.common[2];
  maps.shared.up.weight_OI = weights.common[3];
  maps.shared.down.weight_OI = weights.common[4];
  const auto& w = weights.experts;
  if (rule.storage == ExpertStorage::kEach) {
    for (size_t i = 0; i < w.size(); i += 3) {
      GatedMaps expert;
      expert.gate.weight_OI = w[i];
      expert.up.weight_OI = w[i + 1];
      expert.down.weight_OI = w[i + 2];
      maps.experts.push_back(expert);
    }
    return maps;
  }
  maps.gate_up.weight_OI = w[0];
  maps.down.weight_OI = w[1];
  if (rule.bias) {
    maps.gate_up.bias_O = w[2];
    maps.down.bias_O = w[3];
  }
  return maps;
}

struct RankRun {
  at::Tensor out, dx;
  std::vector<at::Tensor> common, experts;  // gradients; undefined if there is none
  std::vector<int64_t> rows;                // number of rows of each expert
};

// Runs the mixture on one rank, forward and backward. `x_needs`: whether the inputs require a
// gradient.
RankRun RunMixture(const ExpertRule& rule, const Weights& given, const at::Tensor& given_x,
                   const at::Tensor& dy, const comm::BinExchange* ranks, bool x_needs) {
  const Weights weights{Leaves(given.common), Leaves(given.experts)};
  const at::Tensor x = given_x.detach().clone().requires_grad_(x_needs);
  const RouterGroups groups{at::zeros({x.size(0)}, at::kLong), 1};
  const MixtureResult result =
      MixExperts(rule, Activation::kSilu, MapsOf(rule, weights), x, groups, ranks);
  std::vector<at::Tensor> leaves = weights.common;
  leaves.insert(leaves.end(), weights.experts.begin(), weights.experts.end());
  if (x_needs) leaves.push_back(x);
  std::vector<at::Tensor> gradients = base::Differentiate({result.out_TD}, leaves, {dy});
  RankRun run;
  run.out = result.out_TD.detach();
  if (x_needs) run.dx = gradients.back();
  const auto middle = gradients.begin() + static_cast<int64_t>(weights.common.size());
  run.common.assign(gradients.begin(), middle);
  run.experts.assign(middle, middle + static_cast<int64_t>(weights.experts.size()));
  const at::Tensor chosen = result.tally.chosen_GE[0];
  for (int64_t e = 0; e < rule.count; ++e) run.rows.push_back(chosen[e].item<int64_t>());
  return run;
}

at::Tensor OrZeros(const at::Tensor& gradient, const at::Tensor& like) {
  return gradient.defined() ? gradient : at::zeros_like(like);
}

std::vector<ExpertRule> ExpertRules(int64_t count, int64_t chosen) {
  std::vector<ExpertRule> rules;
  for (const ExpertStorage storage :
       {ExpertStorage::kEach, ExpertStorage::kStacked, ExpertStorage::kTransposed,
        ExpertStorage::kTransposedHalves}) {
    ExpertRule rule{
        .count = count, .chosen = chosen, .intermediate = kRankInner, .shared = kRankShared};
    rule.normalised = true;
    rule.storage = storage;
    if (storage == ExpertStorage::kTransposed) {
      rule.bias = true;
      rule.clamped = {.limit = 1.5, .slope = 1.702};
    }
    rules.push_back(rule);
  }
  return rules;
}

// Compares the distributed mixture with that of one rank. `tokens`: number of tokens of each rank;
// `preferred`: an expert to which every token is routed, or -1.
void Compare(const ExpertRule& rule, const std::vector<int64_t>& tokens,
             const std::vector<int64_t>& border, int64_t preferred, bool x_needs) {
  at::manual_seed(5);
  Weights whole = RandomWeights(rule);
  if (preferred >= 0) whole.common[1][preferred] += 100.0;
  const int64_t total = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
  const at::Tensor x = RandomDoubles({total, kRankHidden}),
                   dy = RandomDoubles({total, kRankHidden});
  const RankRun wanted = RunMixture(rule, whole, x, dy, nullptr, x_needs);
  if (preferred >= 0) {
    ASSERT_EQ(wanted.rows[preferred], total);
  }
  const int ranks = static_cast<int>(tokens.size());
  RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
    const std::shared_ptr<comm::Communicator> group = world->communicator();
    const int rank = group->rank();
    const comm::BinExchange exchange(group, border);
    const int64_t begin = std::accumulate(tokens.begin(), tokens.begin() + rank, int64_t{0});
    const auto mine = [&](const at::Tensor& all) { return all.narrow(0, begin, tokens[rank]); };
    const Weights part{whole.common,
                       PartOf(rule, whole.experts, exchange.first(), exchange.count())};
    const auto before = group->counters();
    RankRun run = RunMixture(rule, part, mine(x), mine(dy), &exchange, x_needs);
    const auto after = group->counters();
    EXPECT_TRUE(RelativeError(run.out, mine(wanted.out), kSameOnRanks));
    if (x_needs) {
      EXPECT_TRUE(RelativeError(run.dx, mine(wanted.dx), kSameOnRanks));
    }
    for (size_t i = 0; i < run.common.size(); ++i) {
      at::Tensor sum = OrZeros(run.common[i], whole.common[i]).contiguous();
      ASSERT_OK(group->AllReduceSum(sum));
      EXPECT_TRUE(RelativeError(sum, wanted.common[i], kSameOnRanks)) << "common " << i;
    }
    std::vector<at::Tensor> all;
    for (size_t i = 0; i < wanted.experts.size(); ++i)
      all.push_back(OrZeros(wanted.experts[i], whole.experts[i]));
    const auto of_part = PartOf(rule, all, exchange.first(), exchange.count());
    for (size_t i = 0; i < of_part.size(); ++i)
      EXPECT_TRUE(RelativeError(OrZeros(run.experts[i], part.experts[i]), of_part[i], kSameOnRanks))
          << "expert weight " << i;
    // The expected messages: the counts, and the rows to the experts and back. In the backward: the
    // gradients to the experts, and back only if the inputs require a gradient.
    std::vector<std::vector<int64_t>> rows_PE(ranks);
    for (int r = 0; r < ranks; ++r) {
      at::Tensor rows = at::tensor(run.rows, at::kLong);
      ASSERT_OK(group->Broadcast(rows, r));
      rows_PE[r].assign(rows.const_data_ptr<int64_t>(),
                        rows.const_data_ptr<int64_t>() + rule.count);
    }
    if (!x_needs) return;
    const auto forward = comm::CountBinTraffic(rows_PE, border, rank, kRankHidden * 8, true),
               backward = comm::CountBinTraffic(rows_PE, border, rank, kRankHidden * 8, false);
    EXPECT_EQ(after.steps - before.steps, forward.steps + backward.steps);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, forward.bytes + backward.bytes);
  });
}

TEST(ExpertRanksTest, IsTheMixtureOfOneRank) {
  const std::vector<std::vector<int64_t>> tokens = {
      {19}, {7, 12}, {7, 0, 12}, {0, 11, 1, 7}, {0, 0, 0, 5}};
  for (const int64_t count : {3, 5}) {  // three experts on four ranks: one rank has none
    for (const ExpertRule& rule : ExpertRules(count, 2)) {
      for (const auto& of_ranks : tokens) {
        SCOPED_TRACE(::testing::Message()
                     << count << " experts, storage " << static_cast<int>(rule.storage) << ", "
                     << of_ranks.size() << " ranks");
        Compare(rule, of_ranks, comm::BinParts(count, static_cast<int>(of_ranks.size())), -1, true);
      }
    }
  }
}

TEST(ExpertRanksTest, AllTokensToOneExpert) {
  for (const ExpertRule& rule : ExpertRules(4, 1)) {
    for (const int64_t preferred : {0, 3}) Compare(rule, {4, 9, 2}, {0, 1, 3, 4}, preferred, true);
  }
}

// If nothing below the mixture is trained, a rank without experts still takes part in the others'
// backward.
TEST(ExpertRanksTest, InputsWithoutGradient) {
  for (const ExpertRule& rule : ExpertRules(3, 2))
    Compare(rule, {4, 3, 0, 2}, {0, 2, 2, 3, 3}, -1, false);
}

TEST(ExpertRanksTest, RefusesWhatIsNotItsPart) {
  const ExpertRule rule = ExpertRules(4, 2)[0];
  const Weights whole = RandomWeights(rule);
  RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    const comm::BinExchange exchange(world->communicator(), {0, 2, 4}),
        others(world->communicator(), {0, 2, 3});
    const auto mix = [&](const std::vector<at::Tensor>& experts, const comm::BinExchange& ranks,
                         bool adapted) {
      ExpertMaps maps = MapsOf(rule, {whole.common, experts});
      if (adapted) maps.experts[0].gate.low_rank.emplace();
      MixExperts(rule, Activation::kSilu, maps, at::zeros({2, kRankHidden}, at::kDouble), {},
                 &ranks);
    };
    const auto part = PartOf(rule, whole.experts, exchange.first(), exchange.count());
    EXPECT_THROW(mix(whole.experts, exchange, false), c10::Error);
    EXPECT_THROW(mix(part, others, false), c10::Error);
    EXPECT_THROW(mix(part, exchange, true), c10::Error);
  });
}

// A block on ranks with different streams, run by the block runner: kept or recomputed, in small
// tiles where that is allowed. (Tiles that contain collectives are not allowed, because ranks with
// different numbers of rows would have different numbers of tiles.)
TEST(ExpertRanksTest, ABlockUnderItsRunner) {
  constexpr int64_t kHeads = 3, kDim = 2, kCount = 5;
  at::manual_seed(9);
  ExpertRule experts = ExpertRules(kCount, 2)[1];
  experts.shared = 0;
  std::vector<at::Tensor> whole(kBlockWeights);
  whole[kInputNorm] = whole[kMlpInputNorm] = at::ones({kRankHidden}, at::kDouble);
  for (const int place : {kQuery, kKey, kValue, kOutput})
    whole[place] = RandomDoubles({kHeads * kDim, kRankHidden}) * 0.5;
  whole[kRouter] = RandomDoubles({kCount, kRankHidden});
  whole[kExpertsGateUp] = RandomDoubles({kCount, 2 * kRankInner, kRankHidden});
  whole[kExpertsDown] = RandomDoubles({kCount, kRankHidden, kRankInner});
  const std::vector<int64_t> lengths = {40, 3, 150};
  std::vector<at::Tensor> hidden, gradient;
  for (const int64_t length : lengths) {
    hidden.push_back(RandomDoubles({length, kRankHidden}));
    gradient.push_back(RandomDoubles({length, kRankHidden}));
  }
  RunRanks(3, [&](std::shared_ptr<comm::World> world) {
    const std::shared_ptr<comm::Communicator> group = world->communicator();
    const int rank = group->rank();
    const comm::BinExchange exchange(group, comm::BinParts(kCount, 3));
    struct Result {
      at::Tensor out, dx;
      base::Parameters parameters;
    };
    const auto run = [&](const comm::BinExchange* ranks, Recompute recompute) {
      BlockRule rule{.mixer = &kSoftmaxAttention,
                     .heads = kHeads,
                     .kv_heads = kHeads,
                     .head_dim = kDim,
                     .rms_norm_eps = 1e-5,
                     .matmul_dtype = at::kDouble};
      rule.scores.scale = 0.7;
      rule.experts = experts;
      MaskedAttention attention({lengths[rank]});
      const BlockFunction function = [&](absl::Span<const at::Tensor> weights,
                                         const BlockInputs& inputs, const BlockRun& how) {
        BlockRows rows;
        rows.expert_ranks = ranks;
        return std::vector<at::Tensor>{
            TransformerBlock(rule, BlockMaps(weights), inputs.hidden, rows, attention, how)
                .hidden_TD};
      };
      Result result;
      std::vector<Loan> loans;
      for (int place = 0; place < kBlockWeights; ++place) {
        at::Tensor weight = whole[place];
        if (ranks != nullptr && (place == kExpertsGateUp || place == kExpertsDown))
          weight = weight.narrow(0, ranks->first(), ranks->count());
        loans.push_back({weight.defined() ? std::make_shared<base::Parameter>(std::to_string(place),
                                                                              weight.clone())
                                          : nullptr,
                         at::kDouble});
        result.parameters.push_back(loans.back().parameter);
      }
      const at::Tensor x = hidden[rank].clone().requires_grad_();
      const at::Tensor out = RunBlock(function, loans, {x},
                                      {.recompute = recompute, .tile_bytes = 1, .tile_rows = 8})[0];
      result.out = out.detach();
      result.dx = base::Differentiate({out}, {x}, {gradient[rank]})[0];
      return result;
    };
    for (const Recompute recompute : {Recompute::kBlock, Recompute::kSelective, Recompute::kNone}) {
      SCOPED_TRACE(static_cast<int>(recompute));
      const Result wanted = run(nullptr, recompute), result = run(&exchange, recompute);
      EXPECT_TRUE(RelativeError(result.out, wanted.out, kSameOnRanks));
      EXPECT_TRUE(RelativeError(result.dx, wanted.dx, kSameOnRanks));
      for (int place = 0; place < kBlockWeights; ++place) {
        if (wanted.parameters[place] == nullptr) continue;
        at::Tensor sum = wanted.parameters[place]->WholeGradient().clone();
        at::Tensor mine = result.parameters[place]->WholeGradient();
        if (place == kExpertsGateUp || place == kExpertsDown) {
          ASSERT_OK(group->AllReduceSum(sum));
          sum = sum.narrow(0, exchange.first(), exchange.count());
        }
        EXPECT_TRUE(RelativeError(mine, sum, kSameOnRanks)) << "place " << place;
      }
    }
  });
}

}  // namespace
}  // namespace moonring::model
