// The conformance suite: every strategy, on any number of ranks, equals attention written out over the whole stream, in
// outputs and in the gradients of q, k and v. A new strategy is accepted by adding its name to kStrategies.

#include "attention/strategies.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/reference_block_attention.h"
#include "attention/tile_plan.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using moonring::testing::BitEqual;
using moonring::testing::RelativeError;
using moonring::testing::RelativeErrorOf;
using moonring::testing::RunRanks;
using moonring::testing::StatusIs;
using ::testing::HasSubstr;

const std::vector<std::string> kStrategies = {"ulysses", "ring", "zigzag-ring"};
const std::vector<std::pair<int64_t, int64_t>> kHeads = {{4, 4}, {4, 2}, {9, 3}, {6, 1}, {5, 5}};
const std::vector<int64_t> kMany = {1, 2, 63, 700, 64, 65, 200};
constexpr int64_t kHeadDim = 16;
constexpr double kScale = 0.25;

// One problem over the whole stream, and what attention makes of it.
struct Problem {
  std::vector<int64_t> lengths;
  at::Tensor q, k, v, dout;
};

struct Solution {
  at::Tensor out, dq, dk, dv;
};

Problem RandomProblem(std::vector<int64_t> lengths, int64_t heads, int64_t kv_heads, at::ScalarType type) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const auto random = [&](int64_t of) { return at::randn({tokens, of, kHeadDim}, at::kDouble).to(type); };
  return {std::move(lengths), random(heads), random(kv_heads), random(kv_heads), random(heads)};
}

Problem InDouble(const Problem& problem) {
  return {problem.lengths, problem.q.to(at::kDouble), problem.k.to(at::kDouble), problem.v.to(at::kDouble), problem.dout.to(at::kDouble)};
}

// Softmax by document through LibTorch's own autograd, in the problem's dtype.
Solution Written(const Problem& problem) {
  const at::Tensor q = problem.q.detach().requires_grad_(), k = problem.k.detach().requires_grad_(), v = problem.v.detach().requires_grad_();
  const int64_t group = q.size(1) / k.size(1);
  std::vector<at::Tensor> outs;
  int64_t offset = 0;
  for (const int64_t length : problem.lengths) {
    const auto by_head = [&](const at::Tensor& rows, int64_t repeats) { return rows.narrow(0, offset, length).repeat_interleave(repeats, 1).transpose(0, 1); };
    const at::Tensor future = at::ones({length, length}, at::kBool).triu(1);
    const at::Tensor scores = at::matmul(by_head(q, 1), by_head(k, group).transpose(1, 2)).mul(kScale).masked_fill(future, -INFINITY);
    outs.push_back(at::matmul(scores.softmax(2), by_head(v, group)).transpose(0, 1));
    offset += length;
  }
  const at::Tensor out = at::cat(outs);
  const auto gradients = torch::autograd::grad({out}, {q, k, v}, {problem.dout});
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

std::shared_ptr<const comm::Layout> MakeLayout(const Attention& attention, const std::vector<int64_t>& lengths, int ranks) {
  auto layout = comm::Layout::Create(lengths, ranks, attention.ownership(), CausalTileArea);
  EXPECT_OK(layout);
  return *layout;
}

std::unique_ptr<Attention> Create(const std::string& strategy, const comm::World& world, std::shared_ptr<const BlockAttention> block = nullptr) {
  auto attention = CreateAttention({strategy, world.communicator(), std::move(block)});
  EXPECT_OK(attention);
  return *std::move(attention);
}

// This rank's part of a problem, forward and backward; gives its rows of the solution.
Solution Solve(Attention& attention, const std::shared_ptr<const comm::Layout>& layout, int rank, const Problem& problem) {
  auto plan = attention.Plan(layout);
  EXPECT_OK(plan);
  const auto leaf = [&](const at::Tensor& stream) { return layout->Cut(stream, rank).clone().requires_grad_(); };
  const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v);
  const at::Tensor out = (*plan)->Forward(q, k, v, kScale);
  plan->reset();  // the graph must not need the plan
  const auto gradients = torch::autograd::grad({out}, {q, k, v}, {layout->Cut(problem.dout, rank)});
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

// All problems by a strategy on a number of ranks.
std::vector<Solution> SolveAll(const std::string& strategy, int ranks, const std::vector<Problem>& problems,
                               std::shared_ptr<const BlockAttention> block = nullptr) {
  std::vector<std::vector<Solution>> of_rank(ranks, std::vector<Solution>(problems.size()));
  comm::Ownership ownership{};
  RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
    const std::unique_ptr<Attention> attention = Create(strategy, *world, block);
    if (world->rank() == 0) ownership = attention->ownership();
    for (size_t i = 0; i < problems.size(); ++i) {
      of_rank[world->rank()][i] = Solve(*attention, MakeLayout(*attention, problems[i].lengths, ranks), world->rank(), problems[i]);
    }
  });
  std::vector<Solution> solutions;
  for (size_t i = 0; i < problems.size(); ++i) {
    const auto layout = *comm::Layout::Create(problems[i].lengths, ranks, ownership, CausalTileArea);
    const auto join = [&](at::Tensor Solution::*member) {
      std::vector<at::Tensor> locals;
      for (const std::vector<Solution>& rank : of_rank) locals.push_back(rank[i].*member);
      return layout->Join(locals);
    };
    solutions.push_back({join(&Solution::out), join(&Solution::dq), join(&Solution::dk), join(&Solution::dv)});
  }
  return solutions;
}

constexpr at::Tensor Solution::*kMembers[] = {&Solution::out, &Solution::dq, &Solution::dk, &Solution::dv};
constexpr const char* kNames[] = {"out", "dq", "dk", "dv"};

// Where a query meets one key or two, dq and dk are differences near 0 of terms near 1: there `bound` is absolute.
void ExpectClose(const Solution& got, const Solution& want, double bound) {
  for (int m = 0; m < 4; ++m) {
    const at::Tensor &a = got.*kMembers[m], &b = want.*kMembers[m];
    if (a.size(0) > 3) {
      EXPECT_TRUE(RelativeError(a, b, bound)) << kNames[m];
    } else {
      EXPECT_LT((a - b).abs().max().item<double>(), bound) << kNames[m];
    }
  }
}

struct Case {
  std::string strategy;
  int ranks;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.strategy << " on " << value.ranks; }

class StrategyTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::manual_seed(11); }
  const std::string& strategy() const { return GetParam().strategy; }
  int ranks() const { return GetParam().ranks; }
  // In the forward pass, against one rank.
  bool IsBitExact() const { return strategy() == "ulysses" || ranks() == 1; }
};

// Problems with their solution written out in fp64, and that of one rank.
struct Worked {
  std::vector<Problem> problems;
  std::vector<Solution> want, alone;
};

Worked Work(std::vector<Problem> problems) {
  Worked worked{.problems = std::move(problems)};
  for (const Problem& problem : worked.problems) worked.want.push_back(Written(InDouble(problem)));
  worked.alone = SolveAll("dense", 1, worked.problems);
  return worked;
}

// Every shape of heads over documents of many lengths, and a few small streams. Worked once for all strategies.
const Worked& WorkedIn(at::ScalarType type) {
  static std::map<at::ScalarType, Worked> of_type;
  Worked& worked = of_type[type];
  if (worked.problems.empty()) {
    std::vector<Problem> problems;
    for (const auto& [heads, kv_heads] : kHeads) problems.push_back(RandomProblem(kMany, heads, kv_heads, type));
    for (const std::vector<int64_t>& lengths : std::vector<std::vector<int64_t>>{{1}, {2, 1}, {65}, {130, 3}}) {
      problems.push_back(RandomProblem(lengths, 4, 2, type));
    }
    worked = Work(std::move(problems));
  }
  return worked;
}

// Bounds: rule 5 of the design (relative Frobenius error a tensor): fp64 1e-12, fp32 2e-6.
TEST_P(StrategyTest, EqualsAttentionWrittenOutInFp64) {
  const Worked& worked = WorkedIn(at::kDouble);
  const std::vector<Solution> solutions = SolveAll(strategy(), ranks(), worked.problems);
  for (size_t i = 0; i < solutions.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "problem " << i);
    ExpectClose(solutions[i], worked.want[i], 1e-12);
  }
}

TEST_P(StrategyTest, EqualsAttentionWrittenOutInFp32) {
  const Worked& worked = WorkedIn(at::kFloat);
  const std::vector<Solution> solutions = SolveAll(strategy(), ranks(), worked.problems);
  for (size_t i = 0; i < solutions.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "problem " << i);
    ExpectClose(solutions[i], worked.want[i], 2e-6);
    if (IsBitExact()) {
      EXPECT_TRUE(BitEqual(solutions[i].out, worked.alone[i].out));
    }
  }
}

// bf16: at most twice (outputs) and three times (gradients) the error of one rank in bf16, both against fp64.
TEST_P(StrategyTest, Bf16IsAsExactAsOnOneRank) {
  const Worked& worked = WorkedIn(at::kBFloat16);
  const std::vector<Solution> solutions = SolveAll(strategy(), ranks(), worked.problems);
  for (size_t i = 0; i < solutions.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "problem " << i);
    for (int m = 0; m < 4; ++m) {
      const at::Tensor &got = solutions[i].*kMembers[m], &want = worked.want[i].*kMembers[m];
      EXPECT_EQ(got.scalar_type(), at::kBFloat16);
      if (got.size(0) <= 3) continue;  // dq and dk near 0
      const double error = RelativeErrorOf(worked.alone[i].*kMembers[m], want);
      EXPECT_LT(error, 3e-3) << "one rank computes in fp32 and rounds once: 2^-9 at most, " << kNames[m];
      EXPECT_TRUE(RelativeError(got, want, (m == 0 ? 2 : 3) * error)) << kNames[m];
    }
    if (IsBitExact()) {
      EXPECT_TRUE(BitEqual(solutions[i].out, worked.alone[i].out));
    }
  }
}

TEST_P(StrategyTest, DocumentsDoNotSeeOneAnother) {
  Problem problem = RandomProblem(kMany, 4, 2, at::kFloat), perturbed = problem;
  const int64_t begin = 66, length = 700;  // document 3
  for (at::Tensor* stream : {&perturbed.q, &perturbed.k, &perturbed.v, &perturbed.dout}) {
    *stream = stream->clone();
    stream->narrow(0, begin, length).normal_(3.0, 10.0);
  }
  const std::vector<Solution> solutions = SolveAll(strategy(), ranks(), {problem, perturbed});
  for (const at::Tensor Solution::*member : kMembers) {
    const at::Tensor &a = solutions[0].*member, &b = solutions[1].*member;
    EXPECT_TRUE(BitEqual(a.slice(0, 0, begin), b.slice(0, 0, begin)));
    EXPECT_TRUE(BitEqual(a.slice(0, begin + length), b.slice(0, begin + length)));
    EXPECT_FALSE(a.equal(b));
  }
}

// Central differences of L = sum(out * dout) along random directions: a second source for the gradients, in fp64.
TEST_P(StrategyTest, GradientsEqualFiniteDifferences) {
  const Problem problem = RandomProblem({3, 130}, 6, 3, at::kDouble);
  const Problem direction = RandomProblem({3, 130}, 6, 3, at::kDouble);
  constexpr double kStep = 1e-5;
  std::vector<Problem> shifted = {problem};
  for (at::Tensor Problem::*leaf : {&Problem::q, &Problem::k, &Problem::v}) {
    for (const double step : {kStep, -kStep}) {
      shifted.push_back(problem);
      shifted.back().*leaf = problem.*leaf + direction.*leaf * step;
    }
  }
  const std::vector<Solution> solutions = SolveAll(strategy(), ranks(), shifted);
  const auto loss = [&](size_t i) { return (solutions[i].out * problem.dout).sum().item<double>(); };
  const auto along = [&](const at::Tensor& gradient, const at::Tensor& to) { return (gradient * to).sum().item<double>(); };
  const double want[] = {along(solutions[0].dq, direction.q), along(solutions[0].dk, direction.k), along(solutions[0].dv, direction.v)};
  // Truncation is O(step^2) = 1e-10 of third derivatives, rounding 1e-16 |L| / step.
  for (int leaf = 0; leaf < 3; ++leaf)
    EXPECT_NEAR((loss(1 + 2 * leaf) - loss(2 + 2 * leaf)) / (2 * kStep), want[leaf], 1e-6 * std::max(1.0, std::abs(want[leaf])));
}

TEST_P(StrategyTest, RanksWithoutTokensTakePart) {
  const std::vector<Problem> problems = {RandomProblem({1}, 4, 2, at::kDouble), RandomProblem({2, 1}, 9, 3, at::kDouble), RandomProblem({}, 4, 4, at::kDouble)};
  const std::vector<Solution> solutions = SolveAll(strategy(), ranks(), problems);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(RelativeError(solutions[i].out, Written(problems[i]).out, 1e-12));
  EXPECT_EQ(solutions[2].out.sizes(), (std::vector<int64_t>{0, 4, kHeadDim}));
}

TEST_P(StrategyTest, StepsAndBytesAreThoseOfItsCost) {
  for (const auto& [heads, kv_heads] : kHeads) {
    const Problem problem = RandomProblem(kMany, heads, kv_heads, at::kBFloat16);
    RunRanks(ranks(), [&, heads = heads, kv_heads = kv_heads](std::shared_ptr<comm::World> world) {
      const std::unique_ptr<Attention> attention = Create(strategy(), *world);
      const auto layout = MakeLayout(*attention, problem.lengths, ranks());
      ASSERT_OK_AND_ASSIGN(const AttentionCost cost, CostOfAttention(strategy(), *layout, {heads, kv_heads, kHeadDim, 2, 4}));
      const RankCost& mine = cost[world->rank()];
      const comm::Communicator::Counters before = world->communicator()->counters();
      Solve(*attention, layout, world->rank(), problem);
      const comm::Communicator::Counters after = world->communicator()->counters();
      EXPECT_EQ(after.bytes_sent - before.bytes_sent, mine.forward_bytes + mine.backward_bytes);
      EXPECT_EQ(after.steps - before.steps, mine.forward_steps + mine.backward_steps);
    });
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases = {{"dense", 1}};
  for (const std::string& strategy : kStrategies) {
    for (const int ranks : {1, 2, 3, 4, 8}) cases.push_back({strategy, ranks});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, StrategyTest, ::testing::ValuesIn(AllCases()), [](const auto& info) {
  std::string name = info.param.strategy + "_" + std::to_string(info.param.ranks);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(StrategiesTest, RunOnTheReferenceKernelsToo) {
  const Problem problem = RandomProblem({65, 7}, 6, 3, at::kFloat);
  const Solution want = Written(InDouble(problem));
  for (const std::string& strategy : kStrategies) {
    ExpectClose(SolveAll(strategy, 2, {problem}, std::make_shared<ReferenceBlockAttention>())[0], want, 2e-6);
  }
}

// The formulas of the literature, for one document that divides evenly. bf16, P = 4, S = 4096.
TEST(StrategiesTest, BytesAgainstTheFormulas) {
  const AttentionShape shape{.heads = 16, .kv_heads = 4, .head_dim = 64, .element_bytes = 2, .accumulate_bytes = 4};
  const int64_t ranks = 4, n = 4096 * 16 * 64 * 2, nk = 4096 * 4 * 64 * 2;
  const auto bytes = [&](const std::string& strategy, comm::Ownership ownership) {
    const auto layout = *comm::Layout::Create({4096}, ranks, ownership, CausalTileArea);
    int64_t forward = 0, backward = 0;
    const std::vector<RankCost> costs = *CostOfAttention(strategy, *layout, shape);
    for (const RankCost& rank : costs) forward += rank.forward_bytes, backward += rank.backward_bytes;
    return std::pair(forward, backward);
  };
  // Ulysses, each rank: (P-1)/P^2 (2N + 2Nk), both ways.
  const int64_t ulysses = (ranks - 1) * (2 * n + 2 * nk) / ranks;
  EXPECT_EQ(bytes("ulysses", comm::Ownership::kContiguous), std::pair(ulysses, ulysses));
  // A relaying ring sends 2Nk (P-1)/P a rank. Contiguous: only the half that goes forwards. Zigzag: both chunks to earlier
  // ranks, the front one to later ranks: 3/4.
  const int64_t relay = 2 * nk * (ranks - 1);
  EXPECT_EQ(bytes("ring", comm::Ownership::kContiguous), std::pair(relay / 2, relay / 2 + relay));
  EXPECT_EQ(bytes("zigzag-ring", comm::Ownership::kZigzag).first, relay / 4 * 3);
}

TEST(StrategiesTest, BadOptionsAreStatuses) {
  const auto alone = comm::Communicator::Alone();
  EXPECT_THAT(CreateAttention({"flash", alone}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown attention \"flash\"; known are dense, ulysses, ring, zigzag-ring")));
  EXPECT_THAT(CreateAttention({"ring", nullptr}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no group")));
  const std::unique_ptr<Attention> dense = *CreateAttention({"ring", alone});
  EXPECT_EQ(dense->name(), "dense") << "one rank runs the dense plan under any name";
  EXPECT_THAT(dense->Plan(*comm::Layout::Create({5}, 2, comm::Ownership::kContiguous)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 2")));
  RunRanks(2, [](std::shared_ptr<comm::World> world) {
    EXPECT_THAT(CreateAttention({"dense", world->communicator()}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the group has 2")));
    for (const std::string& strategy : kStrategies) {
      const auto attention = *CreateAttention({strategy, world->communicator()});
      EXPECT_EQ(attention->name(), strategy);
      EXPECT_THAT(attention->Plan(*comm::Layout::Create({5}, 3, comm::Ownership::kZigzag)).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("on 2 ranks got a layout of 3")));
    }
  });
}

TEST(StrategiesTest, WrongTensorsThrowBeforeAnythingIsSent) {
  const std::unique_ptr<Attention> attention = *CreateAttention({"dense", comm::Communicator::Alone()});
  const std::unique_ptr<PlannedAttention> plan = *attention->Plan(*comm::Layout::Create({5}, 1, comm::Ownership::kContiguous));
  const auto message = [&](const at::Tensor& q, const at::Tensor& k) -> std::string {
    try {
      plan->Forward(q, k, k, 1.0);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  };
  EXPECT_THAT(message(at::randn({4, 2, 8}), at::randn({4, 2, 8})), HasSubstr("gives this rank 5 tokens, got q [4, 2, 8]"));
  EXPECT_THAT(message(at::randn({5, 3, 8}), at::randn({5, 2, 8})), HasSubstr("3 query heads are no multiple of 2 kv heads"));
  EXPECT_THAT(message(at::randn({5, 2, 8}), at::randn({5, 2, 4})), HasSubstr("head dim of q is 8, of k 4"));
  EXPECT_THAT(message(at::randn({5, 2, 8}), at::randn({5, 2, 8}, at::kDouble)), HasSubstr("dtypes differ"));
  EXPECT_THAT(message(at::randn({5, 2, 8}).to(at::kHalf), at::randn({5, 2, 8}).to(at::kHalf)), HasSubstr("want fp32, bf16 or fp64, got Half"));
}

}  // namespace
}  // namespace moonring::attention
