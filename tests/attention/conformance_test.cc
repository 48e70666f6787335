// The conformance suite: every strategy, on any number of ranks, equals attention over the whole
// stream computed from its definition in fp64: outputs, the kept log-sum-exp, and the gradients of
// q, k and v. Each rank's rows are compared separately, so that an error in a small share is
// visible. The strategies are those of candidates.h.

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention/strategy/attention_cost.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/connected_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using moonring::testing::BitEqual;
using moonring::testing::ConnectedRanks;
using moonring::testing::RelativeError;
using moonring::testing::RelativeErrorOf;

// Expects that two solutions are equal up to the relative error `bound`. If the result is near 0,
// the bound is absolute, in units of the terms of a score.
void ExpectClose(const Solution& got, const Solution& want, int64_t head_dim, double bound) {
  for (size_t m = 0; m < std::size(kMembersAndLse); ++m) {
    const at::Tensor &a = got.*kMembersAndLse[m], &b = want.*kMembersAndLse[m];
    const double terms = IsNearZero(b) ? std::sqrt(static_cast<double>(head_dim)) : 1;
    EXPECT_LE(ErrorOf(a, b), bound * terms) << kNamesAndLse[m] << " " << b.sizes();
  }
}

// Connected ranks by number of ranks, shared by all tests.
std::map<int, std::unique_ptr<ConnectedRanks>>& Connections() {
  static auto* const connections = new std::map<int, std::unique_ptr<ConnectedRanks>>;
  return *connections;
}

// Problems of one dtype with their expected solutions (in fp64), and with the solutions of one rank
// in the problems' dtype.
struct Worked {
  std::vector<Problem> problems;
  std::vector<Solution> want, alone;
};

const std::vector<int64_t> kMany = {1, 2, 63, 0, 330, 64, 65, 0, 130}, kFew = {65, 1, 0, 129};

// Scores are about 1, so this softcap changes them.
constexpr double kSoftcap = 1.5;

// Prefix lengths of the documents in kMany: none, one token, a whole document, up to a block
// boundary and beyond one.
const std::vector<DocumentMask> kPrefixes = {{1}, {0}, {63}, {0}, {100}, {64}, {1}, {0}, {129}};
// Masks with parents before and after their child, partly and wholly visible parents, empty ones,
// and a parent that has a parent.
const std::vector<DocumentMask> kParents = {
    {0, 7, 0}, {0, 0, 1}, {0}, {0, 4, 70}, {0, 8, 70}, {0, 4, 200}, {0, 4, 330}, {0, 2, 63}, {0}};
const std::vector<DocumentMask> kBoth = {{0, 2, 10},   {2, 4, 64}, {1, 8, 130}, {0, 4, 70}, {65},
                                         {10, 4, 200}, {0, 5, 33}, {0},         {129, 6, 1}};

// Test problems: every combination of heads and head dims over documents of many lengths; single
// documents of several lengths; windows; softcaps with each of these; and masks, also with windows.
std::vector<Problem> AllProblems(at::ScalarType type) {
  std::vector<Problem> problems;
  const auto add = [&](std::vector<int64_t> lengths, Heads heads, int64_t window = 0,
                       double softcap = 0.0) {
    problems.push_back(RandomProblem(std::move(lengths), heads, type, window, softcap));
  };
  for (const Heads& heads : std::vector<Heads>{{4, 4, 7}, {7, 1, 16}, {28, 4, 8}, {9, 3, 16}})
    add(kMany, heads);
  for (const Heads& heads : std::vector<Heads>{{8, 2, 16}, {6, 3, 64}, {40, 8, 8}, {5, 5, 128}})
    add(kFew, heads);
  // The value dim differs from the head dim: smaller and larger.
  for (const Heads& heads : std::vector<Heads>{{4, 4, 12, 6}, {9, 3, 24, 16}, {6, 2, 7, 20}}) {
    add(kMany, heads);
    add(kFew, heads, 65, heads.kv_heads == 3 ? kSoftcap : 0.0);
  }
  for (const int64_t length : {1, 2, 7, 33, 257, 1024}) add({length}, {4, 2, 16});
  add({5, 1, 120, 33, 7}, {4, 2, 16});
  add(std::vector<int64_t>(64, 1), {4, 2, 16});
  add({1000, 24}, {6, 3, 16});
  add({0, 0, 3, 0}, {4, 2, 16});
  for (const int64_t window : {1, 2, 63, 64, 65}) add(kFew, {4, 2, 16}, window);
  add(kMany, {4, 2, 16}, 100);
  add({700}, {4, 2, 16}, 500);
  add({1500}, {2, 1, 16}, 130);
  for (const Heads& heads : std::vector<Heads>{{9, 3, 16}, {4, 4, 7}})
    add(kMany, heads, 0, kSoftcap);
  for (const int64_t window : {1, 65, 100}) add(kMany, {28, 4, 8}, window, kSoftcap);
  add({1000, 24}, {6, 3, 16}, 130, kSoftcap);
  add({1500}, {2, 1, 16}, 0, 50.0);
  add({2999}, {2, 1, 8});
  const auto add_mask = [&](std::vector<int64_t> lengths, Heads heads,
                            std::vector<DocumentMask> mask, int64_t window = 0,
                            double softcap = 0.0) {
    add(std::move(lengths), heads, window, softcap);
    problems.back().mask = std::move(mask);
  };
  for (const auto& mask : {kPrefixes, kParents}) {
    add_mask(kMany, {9, 3, 16}, mask);
    add_mask(kMany, {4, 2, 16}, mask, 65);
    add_mask(kMany, {4, 2, 16, 10}, mask);
  }
  for (const int64_t window : {0, 1, 30, 200})
    add_mask(kMany, {4, 2, 16}, kBoth, window, window == 30 ? kSoftcap : 0.0);
  add_mask({1000, 24, 0}, {6, 3, 16}, {{600}, {24, 0, 700}, {0, 1, 24}}, 130);
  add_mask({300, 500, 280}, {2, 1, 16}, {{0, 1, 450}, {130}, {0, 1, 450}});  // answers, a prompt
  return problems;
}

// The problems of a dtype with their expected solutions, computed once. For fp64 these are computed
// from the definition. For fp32 and bf16 they are one rank's fp64 solutions, which are faster to
// compute and which the fp64 tests compare with the definition (1e-12).
const Worked& WorkedIn(at::ScalarType type) {
  static std::map<at::ScalarType, Worked> of_type;
  Worked& worked = of_type[type];
  if (!worked.problems.empty()) return worked;
  worked.problems = AllProblems(type);
  ConnectedRanks one(1);
  if (type == at::kDouble) {
    one.Run([&](std::shared_ptr<comm::World>) {  // one thread that waits for no other
      for (const Problem& problem : worked.problems) worked.want.push_back(Written(problem));
    });
    return worked;
  }
  std::vector<Problem> in_double;
  for (const Problem& problem : worked.problems) in_double.push_back(InDouble(problem));
  worked.want = SolveParts(one, {.name = "dense"}, in_double).of_rank[0];
  worked.alone = SolveParts(one, {.name = "dense"}, worked.problems).of_rank[0];
  return worked;
}

class ConformanceTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::manual_seed(11); }
  static void TearDownTestSuite() { Connections().clear(); }

  const StrategyOptions& strategy() const { return GetParam().strategy; }
  ConnectedRanks& ranks() const {
    auto& found = Connections()[GetParam().ranks];
    if (found == nullptr) found = std::make_unique<ConnectedRanks>(GetParam().ranks);
    return *found;
  }
  bool IsBitExact() const { return GetParam().bit_exact || GetParam().ranks == 1; }
  std::vector<Solution> SolvedOnRanks(const std::vector<Problem>& problems) const {
    return SolveAll(ranks(), strategy(), problems);
  }

  // Receives each rank's rows of every problem: the result under test, the expected result, and the
  // result of one rank in the same dtype (fp32, bf16).
  using ExpectPart = std::function<void(const Problem&, const Solution& got, const Solution& want,
                                        const Solution& alone)>;
  void ForEachPart(at::ScalarType type, const ExpectPart& expect) const {
    const Worked& worked = WorkedIn(type);
    const Parts parts = SolveParts(ranks(), strategy(), worked.problems);
    for (size_t i = 0; i < worked.problems.size(); ++i) {
      const Problem& problem = worked.problems[i];
      SCOPED_TRACE(Said(problem));
      for (int rank = 0; rank < ranks().size(); ++rank) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        const auto rows = [&](const Solution& stream) {
          return RowsOf(stream, *parts.layouts[i], rank, problem);
        };
        expect(problem, parts.of_rank[rank][i], rows(worked.want[i]),
               worked.alone.empty() ? Solution{} : rows(worked.alone[i]));
      }
    }
  }
};

// Bounds on the relative Frobenius error of each tensor: fp64 1e-12, fp32 2e-6.
TEST_P(ConformanceTest, EqualsAttentionWrittenOutInFp64) {
  ForEachPart(at::kDouble,
              [](const Problem& problem, const Solution& got, const Solution& want,
                 const Solution&) { ExpectClose(got, want, problem.q.size(2), 1e-12); });
}

TEST_P(ConformanceTest, EqualsAttentionWrittenOutInFp32) {
  ForEachPart(at::kFloat, [&](const Problem& problem, const Solution& got, const Solution& want,
                              const Solution& alone) {
    ExpectClose(got, want, problem.q.size(2), 2e-6);
    if (IsBitExact()) {
      EXPECT_TRUE(BitEqual(got.out, alone.out));
    }
  });
}

// The error in bf16 relative to fp64 is at most twice (outputs) or three times (gradients) that of
// one rank in bf16; the bound is at least half a unit in the last place. lse is fp32.
TEST_P(ConformanceTest, Bf16IsAsExactAsOnOneRank) {
  ForEachPart(at::kBFloat16, [&](const Problem& problem, const Solution& got, const Solution& want,
                                 const Solution& alone) {
    for (int m = 0; m < 4; ++m) {
      const at::Tensor &tensor = got.*kMembers[m], &exact = want.*kMembers[m];
      EXPECT_EQ(tensor.scalar_type(), at::kBFloat16);
      if (IsNearZero(exact)) continue;
      const double error = RelativeErrorOf(alone.*kMembers[m], exact);
      EXPECT_LT(error, m == 0 ? 4e-3 : 5e-3)
          << "one rank rounds P or dS, and the result: 2^-9 at most each, of terms that may cancel "
             "in a gradient, "
          << kNames[m];
      EXPECT_TRUE(RelativeError(tensor, exact, (m == 0 ? 2 : 3) * std::max(error, 1e-3)))
          << kNames[m];
    }
    if (!IsNearZero(want.lse)) {
      EXPECT_TRUE(RelativeError(got.lse, want.lse, 2e-6));
    }
    if (IsBitExact()) {
      EXPECT_TRUE(BitEqual(got.out, alone.out));
    }
  });
}

TEST_P(ConformanceTest, DocumentsDoNotSeeOneAnother) {
  const Problem problem = RandomProblem({1, 2, 63, 700, 64, 65, 200}, {}, at::kFloat);
  Problem perturbed = problem;
  const int64_t begin = 66, length = 700;  // document 3
  for (at::Tensor* stream : {&perturbed.q, &perturbed.k, &perturbed.v, &perturbed.dout}) {
    *stream = stream->clone();
    stream->narrow(0, begin, length).normal_(3.0, 10.0);
  }
  const std::vector<Solution> solutions = SolvedOnRanks({problem, perturbed});
  for (const at::Tensor Solution::*member : kMembers) {
    const at::Tensor &a = solutions[0].*member, &b = solutions[1].*member;
    EXPECT_TRUE(BitEqual(a.slice(0, 0, begin), b.slice(0, 0, begin)));
    EXPECT_TRUE(BitEqual(a.slice(0, begin + length), b.slice(0, begin + length)));
    EXPECT_FALSE(a.equal(b));
  }
}

// Gradients equal central differences of L = sum(out * dout) along random directions, in fp64: a
// second reference, independent of the definition's.
TEST_P(ConformanceTest, GradientsEqualFiniteDifferences) {
  const Heads heads{6, 3, 16, 10};
  const Problem direction = RandomProblem({3, 130}, heads, at::kDouble);
  constexpr double kStep = 1e-5;
  for (const double softcap : {0.0, kSoftcap}) {
    const Problem problem = RandomProblem({3, 130}, heads, at::kDouble, /*window=*/70, softcap);
    std::vector<Problem> shifted = {problem};
    for (at::Tensor Problem::*leaf : {&Problem::q, &Problem::k, &Problem::v}) {
      for (const double step : {kStep, -kStep}) {
        shifted.push_back(problem);
        shifted.back().*leaf = problem.*leaf + direction.*leaf * step;
      }
    }
    const std::vector<Solution> solutions = SolvedOnRanks(shifted);
    const auto loss = [&](size_t i) {
      return (solutions[i].out * problem.dout).sum().item<double>();
    };
    const auto along = [&](const at::Tensor& gradient, const at::Tensor& to) {
      return (gradient * to).sum().item<double>();
    };
    const double want[] = {along(solutions[0].dq, direction.q), along(solutions[0].dk, direction.k),
                           along(solutions[0].dv, direction.v)};
    // The truncation error is O(step^2) = 1e-10 times third derivatives; rounding is 1e-16 |L| /
    // step.
    for (int leaf = 0; leaf < 3; ++leaf)
      EXPECT_NEAR((loss(1 + 2 * leaf) - loss(2 + 2 * leaf)) / (2 * kStep), want[leaf],
                  1e-6 * std::max(1.0, std::abs(want[leaf])));
  }
}

TEST_P(ConformanceTest, RanksWithoutTokensTakePart) {
  const std::vector<Problem> problems = {
      RandomProblem({1}, {}, at::kDouble), RandomProblem({2, 1}, {9, 3}, at::kDouble),
      RandomProblem({}, {4, 4}, at::kDouble), RandomProblem({0, 0}, {4, 4}, at::kDouble)};
  const std::vector<Solution> solutions = SolvedOnRanks(problems);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(RelativeError(solutions[i].out, Written(problems[i]).out, 1e-12));
  for (size_t i = 2; i < 4; ++i)
    EXPECT_EQ(solutions[i].out.sizes(), (std::vector<int64_t>{0, 4, 16}));
}

// A second forward that reuses the tensors kept by the first one is bit-identical and sends no
// keys.
TEST_P(ConformanceTest, ResumesFromWhatWasKept) {
  for (const Problem& problem :
       {RandomProblem(kMany, {9, 3}, at::kFloat), RandomProblem(kMany, {9, 3}, at::kBFloat16),
        RandomProblem(kMany, {9, 3, 16, 12}, at::kFloat),
        RandomProblem(kMany, {9, 3}, at::kFloat, /*window=*/70, kSoftcap)}) {
    ranks().Run([&](std::shared_ptr<comm::World> world) {
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Attention> attention,
                           CreateAttention({strategy(), world->communicator()}));
      const auto bytes = [&] { return world->communicator()->counters().bytes_sent; };
      const int64_t start = bytes();
      const Solution once = Solve(*attention, world->rank(), problem);
      const int64_t middle = bytes();
      const Solution again = Solve(*attention, world->rank(), problem, /*resumed=*/true);
      for (int m = 0; m < 4; ++m)
        EXPECT_TRUE(BitEqual(again.*kMembers[m], once.*kMembers[m])) << kNames[m];
      const comm::Division division = attention->Divide(problem.lengths);
      const int64_t more = bytes() - middle - (middle - start);
      if (division.heads == 1) {
        EXPECT_EQ(more, 0);
      } else {
        EXPECT_LE(more, (middle - start) / 2);  // heads are only exchanged before attention
      }
    });
  }
}

TEST_P(ConformanceTest, StepsAndBytesAreThoseOfItsCost) {
  if (strategy().name == "auto") return;
  std::vector<Problem> problems = {RandomProblem({3, 1030}, {}, at::kFloat)};
  for (const Heads& heads :
       std::vector<Heads>{{4, 4}, {9, 3}, {6, 1}, {5, 5}, {4, 4, 24, 16}, {9, 3, 8, 20}}) {
    for (const int64_t window : {0, 100})
      problems.push_back(RandomProblem(kMany, heads, at::kBFloat16, window));
  }
  ranks().Run([&](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(const Strategy resolved, ResolveStrategy(strategy(), world->size()));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Attention> attention,
                         CreateAttention({strategy(), world->communicator()}));
    for (const Problem& problem : problems) {
      SCOPED_TRACE(Said(problem));
      const RankCost mine = CostOfAttention(resolved, *MakeLayout(*attention, problem.lengths),
                                            problem.shape())[world->rank()];
      const comm::Communicator::Counters before = world->communicator()->counters();
      Solve(*attention, world->rank(), problem);
      const comm::Communicator::Counters after = world->communicator()->counters();
      EXPECT_EQ(after.bytes_sent - before.bytes_sent, mine.forward().bytes + mine.backward().bytes);
      EXPECT_EQ(after.steps - before.steps, mine.forward().steps + mine.backward().steps);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace moonring::attention
