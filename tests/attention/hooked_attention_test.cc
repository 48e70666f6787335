// HooksOf inside attention against a dense reference: softmax attention over whole documents in
// fp64, with the bias and the choice of blocks written out for each pair of tokens. On one rank and
// on several, under every kind of layout.

#include "attention/hooks/hooked_attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "attention/hooks/document_keys.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/problem.h"
#include "tests/testing/connected_ranks.h"
#include "tests/testing/finite_differences.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kBlockKeys = 8, kTopBlocks = 3, kLayerWidth = 6;

// The inputs besides q, k and v: the layer's input [T, 6], a gate's weight [6, H] and the sinks.
struct LayerInputs {
  at::Tensor hidden, weight, sink;
};

LayerInputs RandomLayerInputs(const Problem& problem) {
  const at::TensorOptions fp64(at::kDouble);
  const int64_t heads = problem.q.size(1);
  return {at::randn({problem.q.size(0), kLayerWidth}, fp64), at::randn({kLayerWidth, heads}, fp64),
          at::randn({heads}, fp64)};
}

// The best kTopBlocks blocks for each query and head, by the mean key of a block; the query's own
// block is the first of them. q [M, H, D], k [N, Hk, D], places [M] -> bool [M, H, blocks].
at::Tensor BestBlocks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& places) {
  const int64_t blocks = (k.size(0) + kBlockKeys - 1) / kBlockKeys, group = q.size(1) / k.size(1);
  std::vector<at::Tensor> means;
  for (int64_t b = 0; b < blocks; ++b)
    means.push_back(
        k.narrow(0, b * kBlockKeys, std::min(kBlockKeys, k.size(0) - b * kBlockKeys)).mean(0));
  const at::Tensor mean = at::stack(means).repeat_interleave(group, 1);
  at::Tensor scores = at::einsum("mhd,bhd->mhb", {q, mean});
  const at::Tensor own = places.floor_divide(kBlockKeys).view({-1, 1, 1}),
                   block = at::arange(blocks);
  scores = scores.masked_fill(block > own, -INFINITY).masked_fill(block == own, INFINITY);
  const at::Tensor top = std::get<1>(scores.topk(std::min(kTopBlocks, blocks), -1));
  return at::zeros_like(scores, at::kBool).scatter(-1, top, true);
}

at::Tensor GatesOf(const at::Tensor& hidden, const at::Tensor& weight) {
  return at::log_sigmoid(hidden.matmul(weight));
}

std::shared_ptr<AttentionHooks> HooksOf(bool bias, bool blocks) {
  auto hooks = std::make_shared<AttentionHooks>();
  if (bias) {
    hooks->rows = [](const at::Tensor& hidden, const NamedTensors& given) {
      return NamedTensors{{"gate", GatesOf(hidden, given[0].second)}};
    };
    hooks->bias = [](const HookTile& tile) {  // a forgetting gate: the sum of gates in between
      const at::Tensor sum_NH = tile.rows[0].second.cumsum(0);
      return sum_NH.index_select(0, tile.places_M).t().unsqueeze(2) - sum_NH.t().unsqueeze(1);
    };
  }
  if (blocks) {
    hooks->block_size = kBlockKeys;
    hooks->blocks = [](const HookTile& tile) {
      return BestBlocks(tile.keys.q_THD, tile.keys.k_SKD, tile.places_M);
    };
  }
  return hooks;
}

std::vector<int64_t> RowsOfDocument(const Problem& problem, const Mask* mask, int64_t document) {
  std::vector<int64_t> rows;
  const auto add = [&](int64_t d, int64_t tokens) {
    int64_t first = 0;
    for (int64_t e = 0; e < d; ++e) first += problem.lengths[e];
    for (int64_t t = 0; t < tokens; ++t) rows.push_back(first + t);
  };
  if (mask != nullptr)
    for (const Mask::Before& before : mask->before(document)) add(before.document, before.tokens);
  add(document, problem.lengths[document]);
  return rows;
}

// The reference: out [T, H, Dv] of the whole stream.
at::Tensor DenseOut(const Problem& problem, const LayerInputs& more, bool bias, bool blocks) {
  const LayerMasks masks = problem.masks();
  const Mask* const mask = MaskOf(masks, 0);
  const int64_t group = problem.q.size(1) / problem.k.size(1);
  std::vector<at::Tensor> outs;
  for (size_t d = 0; d < problem.lengths.size(); ++d) {
    const int64_t length = problem.lengths[d];
    if (length == 0) continue;
    const std::vector<int64_t> rows = RowsOfDocument(problem, mask, static_cast<int64_t>(d));
    const at::Tensor index = at::tensor(rows),
                     own = index.narrow(0, index.size(0) - length, length);
    const at::Tensor places = at::arange(index.size(0) - length, index.size(0));
    const at::Tensor q = problem.q.index_select(0, own), k = problem.k.index_select(0, index);
    at::Tensor scores =
        at::einsum("mhd,nhd->hmn", {q, k.repeat_interleave(group, 1)}) * problem.scale();
    if (problem.softcap != 0) scores = (scores / problem.softcap).tanh() * problem.softcap;
    const at::Tensor x = places.unsqueeze(1), y = at::arange(index.size(0)).unsqueeze(0);
    at::Tensor seen = y <= x;
    if (problem.window > 0) seen = seen & (y > x - problem.window);
    if (mask != nullptr) {
      const int64_t place = mask->place(static_cast<int64_t>(d));
      seen = seen | ((y >= place) & (y < place + mask->prefix(static_cast<int64_t>(d))));
      for (const Mask::Before& before : mask->before(static_cast<int64_t>(d)))
        seen = seen | ((y >= before.place) & (y < before.place + mask->prefix(before.document)));
    }
    if (bias) {
      const at::Tensor gates = GatesOf(more.hidden.index_select(0, index), more.weight);
      // The sum of the gates after the key, up to the query; for a key after the query, minus those
      // in between.
      const at::Tensor m = x.unsqueeze(2), n = y.unsqueeze(2), l = y.unsqueeze(0);
      const at::Tensor between =
          ((l <= m) & (l > n)).to(at::kDouble) - ((l > m) & (l <= n)).to(at::kDouble);
      scores = scores + at::einsum("mnl,lh->hmn", {between, gates});
    }
    if (blocks) {
      const at::Tensor best = BestBlocks(q, k, places).repeat_interleave(kBlockKeys, 2);
      seen = seen & best.narrow(2, 0, index.size(0)).permute({1, 0, 2});
    }
    scores = scores.masked_fill(seen.logical_not(), -INFINITY);
    const at::Tensor sink = more.sink.view({-1, 1, 1}).expand({-1, length, 1});
    const at::Tensor weights =
        at::softmax(at::cat({scores, sink}, -1), -1).narrow(-1, 0, index.size(0));
    const at::Tensor v = problem.v.index_select(0, index).repeat_interleave(group, 1);
    outs.push_back(at::einsum("hmn,nhd->mhd", {weights, v}));
  }
  return at::cat(outs);
}

std::vector<at::Tensor> LeavesOf(Problem& problem, LayerInputs& more) {
  std::vector<at::Tensor> leaves;
  for (at::Tensor* each :
       {&problem.q, &problem.k, &problem.v, &more.hidden, &more.weight, &more.sink}) {
    *each = each->detach().clone().requires_grad_();
    leaves.push_back(*each);
  }
  return leaves;
}

// The result and the gradients; those of leaves that are not used are zeros.
std::vector<at::Tensor> OutAndGradients(const at::Tensor& out, const at::Tensor& dout,
                                        const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> all = {out.detach()};
  (out * dout).sum().backward();
  for (const at::Tensor& leaf : leaves)
    all.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  return all;
}

struct HookedCase {
  std::string name;
  std::vector<int64_t> lengths;
  bool bias = false, blocks = false;
  int64_t window = 0;
  double softcap = 0;
  std::vector<DocumentMask> mask = {};
};

std::vector<HookedCase> HookedCases() {
  return {
      {"a forgetting gate", {150, 1, 0, 64, 201, 30}, true, false},
      {"the best blocks", {150, 1, 0, 64, 201, 30}, false, true},
      {"both, a window and a softcap", {150, 1, 64, 201}, true, true, 50, 3.0},
      {"a prefix and parents",
       {66, 70, 150, 1, 30},
       true,
       true,
       0,
       0,
       {{0, 1, 70}, {0, 2, 150}, {20}, {0, 2, 150}, {0, 2, 100}}},
  };
}

const char* const kNamesWithHooks[] = {"out", "dq", "dk", "dv", "dhidden", "dweight", "dsink"};

class HookedAttentionTest : public ::testing::Test {
 protected:
  // Solves the problem on the ranks with the hooks, with whole graphs if `keeps_graph`.
  static std::vector<at::Tensor> OnRanks(testing::ConnectedRanks& ranks,
                                         const StrategyOptions& strategy, const Problem& problem,
                                         const LayerInputs& more,
                                         std::shared_ptr<AttentionHooks> hooks, bool keeps_graph) {
    std::vector<std::vector<at::Tensor>> parts(ranks.size());
    std::shared_ptr<const comm::Layout> of_all;
    ranks.Run([&](std::shared_ptr<comm::World> world) {
      auto attention = CreateAttention({strategy, world->communicator()});
      ASSERT_OK(attention);
      const int rank = world->rank();
      const auto layout = MakeLayout(**attention, problem.lengths);
      const auto plan = (*attention)->Plan(layout, problem.masks());
      ASSERT_OK(plan);
      if (rank == 0) of_all = layout;
      Problem own = problem;
      LayerInputs own_more = more;
      for (at::Tensor* each : {&own.q, &own.k, &own.v, &own.dout, &own_more.hidden})
        *each = layout->Cut(*each, rank);
      const std::vector<at::Tensor> leaves = LeavesOf(own, own_more);
      HookedAttention hooked(**plan, {.keys = std::make_shared<DocumentKeys>(
                                          layout, problem.masks(), world->communicator()),
                                      .hooks = hooks,
                                      .given = {{"weight", own_more.weight}},
                                      .hidden_TD = own_more.hidden,
                                      .record = std::make_shared<HookRecord>(),
                                      .keeps_graph = keeps_graph});
      ScoreRule rule = problem.rule();
      rule.sink_H = own_more.sink;
      parts[rank] =
          OutAndGradients(hooked.Forward(own.q, own.k, own.v, rule, nullptr), own.dout, leaves);
    });
    std::vector<at::Tensor> joined;
    for (size_t i = 0; i < parts[0].size(); ++i) {
      std::vector<at::Tensor> each;
      for (const auto& part : parts) each.push_back(part[i]);
      joined.push_back(i < 5 ? of_all->Join(each) : at::stack(each).sum(0));
    }
    return joined;
  }
};

TEST_F(HookedAttentionTest, EqualsDenseAttentionOnAnyRanks) {
  testing::ConnectedRanks one(1), two(2), four(4);
  for (const HookedCase& each : HookedCases()) {
    Problem problem =
        RandomProblem(each.lengths, {4, 2, 12, 10}, at::kDouble, each.window, each.softcap);
    problem.mask = each.mask;
    LayerInputs more = RandomLayerInputs(problem);
    Problem whole = problem;
    LayerInputs whole_more = more;
    const std::vector<at::Tensor> leaves = LeavesOf(whole, whole_more);
    const std::vector<at::Tensor> want =
        OutAndGradients(DenseOut(whole, whole_more, each.bias, each.blocks), problem.dout, leaves);
    const auto expect = [&](testing::ConnectedRanks& ranks, const std::string& name,
                            bool keeps_graph) {
      const std::vector<at::Tensor> got = OnRanks(ranks, {.name = name}, problem, more,
                                                  HooksOf(each.bias, each.blocks), keeps_graph);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(ErrorOf(got[i], want[i]), 1e-12)
            << each.name << ", " << name << " on " << ranks.size() << ": " << kNamesWithHooks[i];
    };
    expect(one, "dense", false);
    expect(one, "dense", true);
    expect(two, "zigzag-ring", false);
    expect(two, "ulysses", true);
    for (const char* name : {"ring", "ulysses", "all-gather", "usp"}) expect(four, name, false);
  }
}

// Without a choice, composed attention equals the kernels; with a hook on q, k and v alone, the
// kernels run on what it returned.
TEST_F(HookedAttentionTest, AgreesWithTheKernels) {
  testing::ConnectedRanks two(2);
  const Problem problem = RandomProblem({150, 1, 64, 201}, {4, 2, 12}, at::kDouble);
  const LayerInputs more = RandomLayerInputs(problem);
  const auto solve = [&](std::shared_ptr<AttentionHooks> hooks) {
    return OnRanks(two, {.name = "zigzag-ring"}, problem, more, std::move(hooks), false);
  };
  const auto plain = std::make_shared<AttentionHooks>(), all = std::make_shared<AttentionHooks>(),
             twice = std::make_shared<AttentionHooks>();
  all->block_size = 7;
  all->blocks = [](const HookTile& tile) {
    return at::ones({1, 1, (tile.keys.k_SKD.size(0) + 6) / 7}, at::kBool);
  };
  twice->qkv = [](const QueryKeyValue& rows, const NamedTensors&) {
    return QueryKeyValue{rows.q_THD * 2, rows.k_SKD, rows.v_SKD * 3};
  };
  const std::vector<at::Tensor> want = solve(plain), got = solve(all), grown = solve(twice);
  for (const size_t i : {0, 1, 2, 3, 6})
    EXPECT_LT(ErrorOf(got[i], want[i]), 1e-12) << kNamesWithHooks[i];
  Problem larger = problem;
  larger.q = larger.q * 2;
  larger.v = larger.v * 3;
  const std::vector<at::Tensor> of_larger =
      OnRanks(two, {.name = "zigzag-ring"}, larger, more, plain, false);
  EXPECT_LT(ErrorOf(grown[0], of_larger[0]), 1e-12);
  EXPECT_LT(ErrorOf(grown[1], of_larger[1] * 2), 1e-12);
  EXPECT_LT(ErrorOf(grown[3], of_larger[3] * 3), 1e-12);
}

// The gradient of a bias, by differences.
TEST_F(HookedAttentionTest, TheGradientOfABiasIsThatOfDifferences) {
  testing::ConnectedRanks one(1);
  const Problem problem = RandomProblem({70, 9}, {4, 2, 6}, at::kDouble);
  LayerInputs more = RandomLayerInputs(problem);
  const auto hooks = HooksOf(true, true);
  const auto solve = [&] { return OnRanks(one, {.name = "dense"}, problem, more, hooks, false); };
  const auto loss = [&] { return (solve()[0] * problem.dout).sum().item<double>(); };
  const std::vector<at::Tensor> got = solve();
  EXPECT_LT(ErrorOf(got[5], testing::FiniteDifferences(loss, more.weight)),
            testing::kDifferenceBound);
}

TEST_F(HookedAttentionTest, MistakesAreNamed) {
  testing::ConnectedRanks one(1);
  const Problem problem = RandomProblem({70, 9}, {4, 2, 6}, at::kDouble);
  const LayerInputs more = RandomLayerInputs(problem);
  const auto refused = [&](const std::shared_ptr<AttentionHooks>& hooks, const std::string& words) {
    one.Run([&](std::shared_ptr<comm::World> world) {
      auto attention = CreateAttention({{.name = "dense"}, world->communicator()});
      const auto layout = MakeLayout(**attention, problem.lengths);
      const auto plan = (*attention)->Plan(layout);
      Problem own = problem;
      LayerInputs own_more = more;
      LeavesOf(own, own_more);
      HookedAttention hooked(**plan, {.keys = std::make_shared<DocumentKeys>(layout, LayerMasks(),
                                                                             world->communicator()),
                                      .hooks = hooks,
                                      .given = {{"weight", own_more.weight}},
                                      .hidden_TD = own_more.hidden,
                                      .record = std::make_shared<HookRecord>()});
      const auto run = [&] {
        for (int i = 0; i < 2; ++i)
          hooked.Forward(own.q, own.k, own.v, problem.rule(), nullptr).sum().backward();
      };
      EXPECT_THAT(run, ThrowsMessage<c10::Error>(HasSubstr(words)));
    });
  };
  const at::Tensor outside = at::ones({4, 1, 1}, at::kDouble).requires_grad_();
  auto hooks = std::make_shared<AttentionHooks>();
  hooks->bias = [&](const HookTile&) { return outside * 2; };
  refused(hooks, "block 1: bias uses a tensor from outside the block that requires a gradient");
  hooks->bias = [](const HookTile&) { return at::zeros({3, 1, 1}); };
  refused(hooks, "bias returned Float [3, 1, 1], expected numbers that broadcast to [4 heads, ");
  hooks->bias = [](const HookTile&) { return at::rand({4, 1, 1}); };
  refused(hooks, "bias returned other numbers when the block was recomputed");
  hooks = std::make_shared<AttentionHooks>();
  hooks->block_size = 16;
  hooks->blocks = [](const HookTile&) { return at::ones({1, 3, 1}, at::kBool); };
  refused(hooks, "blocks returned Bool [1, 3, 1], expected Bool [queries or 1, heads, blocks]");
  hooks->blocks = [](const HookTile& tile) {
    return at::arange((tile.keys.k_SKD.size(0) + 15) / 16).eq(0).view({1, 1, -1}).logical_not();
  };
  refused(hooks, "blocks chose no key that the query at place 0 of document 1 may attend to");
  hooks = std::make_shared<AttentionHooks>();
  hooks->qkv = [](const QueryKeyValue& rows, const NamedTensors&) {
    return QueryKeyValue{rows.q_THD, rows.k_SKD.narrow(1, 0, 1), rows.v_SKD};
  };
  refused(hooks, "qkv returned k Double [79, 1, 6] on cpu, expected Double [79, 2, 6] on cpu");
  hooks->qkv = [&](const QueryKeyValue& rows, const NamedTensors&) {
    return QueryKeyValue{rows.q_THD * outside.sum(), rows.k_SKD, rows.v_SKD};
  };
  refused(hooks, "block 1: qkv uses a tensor from outside the block");
}

}  // namespace
}  // namespace moonring::attention
