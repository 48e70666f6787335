// The conformance suite with more cases: every strategy on 1, 2, 3, 4 and 8 ranks is compared with
// attention computed from its definition in fp64, for each rank's rows of each tensor separately,
// over
//
//   lengths    1, 2, 3, 7, 33, 257, 1024, 2999; [5 1 120 33 7], 64 documents of one token, [1000
//              24], empty documents between
//   heads      4/4, 8/2, 6/3, 7/1, 28/4, 40/8 (query/kv), each with each of these lengths; head
//              dims 7, 16, 64, 128 are used in turn
//   windows    none; 50 tokens
//   softcaps   none; 1.5 for a third of them
//   tensors    out, lse, dq, dk, dv
//
// and the worst error of each tensor is printed by strategy, ranks and dtype. It takes many
// minutes:
//
//   bazel test //tests/attention:conformance_matrix_test --test_output=all

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/problem.h"
#include "tests/testing/connected_ranks.h"

namespace moonring::attention {
namespace {

using moonring::testing::ConnectedRanks;

constexpr int kTensors = std::size(kMembersAndLse);

const std::vector<std::vector<int64_t>> kMatrixLengths = {{1},
                                                          {2},
                                                          {3},
                                                          {7},
                                                          {33},
                                                          {257},
                                                          {1024},
                                                          {2999},
                                                          {5, 1, 120, 33, 7},
                                                          std::vector<int64_t>(64, 1),
                                                          {1000, 24},
                                                          {0, 65, 0, 0, 130, 1, 0}};
const std::vector<Heads> kMatrixHeads = {{4, 4}, {8, 2}, {6, 3}, {7, 1}, {28, 4}, {40, 8}};
constexpr std::array<int64_t, 4> kHeadDims = {7, 16, 64, 128};

// Upper limit of the floating-point operations of one problem, forward and backward, computed from
// the definition. A head dim that needs more is replaced by the next smaller one.
constexpr double kMostFlops = 2e9;

double Flops(const std::vector<int64_t>& lengths, const Heads& heads) {
  double flops = 0;
  for (const int64_t length : lengths)
    flops += 14.0 * static_cast<double>(length * length * heads.heads * heads.head_dim);
  return flops;
}

std::vector<Problem> MatrixProblems(at::ScalarType type) {
  at::manual_seed(21);
  std::vector<Problem> problems;
  for (size_t l = 0; l < kMatrixLengths.size(); ++l) {
    for (size_t h = 0; h < kMatrixHeads.size(); ++h) {
      for (const int64_t window : {0, 50}) {
        size_t turn = (l + h + (window > 0 ? 2 : 0)) % kHeadDims.size();
        Heads heads{kMatrixHeads[h].heads, kMatrixHeads[h].kv_heads, kHeadDims[turn]};
        while (turn > 0 && Flops(kMatrixLengths[l], heads) > kMostFlops)
          heads.head_dim = kHeadDims[--turn];
        problems.push_back(RandomProblem(kMatrixLengths[l], heads, type, window,
                                         problems.size() % 3 == 2 ? 1.5 : 0.0));
      }
    }
  }
  return problems;
}

struct Row {
  std::string name;
  std::array<double, kTensors> worst = {};
};

void Print(const Row& row) {
  std::printf("%-44s", row.name.c_str());
  for (const double error : row.worst) std::printf(" %9.1e", error);
  std::printf("\n");
  std::fflush(stdout);
}

// Problems with their expected solutions. For fp64 problems, these are computed from the
// definition; for others, by one rank in fp64, which the fp64 problems compare with the definition.
struct WorkedMatrix {
  std::vector<Problem> problems;
  std::vector<Solution> want, alone;  // `alone`: by one rank in the problem's dtype
};

const WorkedMatrix& MatrixWorkedIn(at::ScalarType type) {
  static auto* const of_type = new std::map<at::ScalarType, WorkedMatrix>;
  WorkedMatrix& worked = (*of_type)[type];
  if (!worked.problems.empty()) return worked;
  worked.problems = MatrixProblems(type);
  ConnectedRanks(1).Run([&](std::shared_ptr<comm::World> world) {
    const auto dense = *CreateAttention({{.name = "dense"}, world->communicator()});
    for (const Problem& problem : worked.problems) {
      const auto layout = MakeLayout(*dense, problem.lengths);
      const auto by_one = [&](const Problem& of) {
        return SolveWithLse(**dense->Plan(layout), *layout, 0, of);
      };
      worked.want.push_back(type == at::kDouble ? Written(problem) : by_one(InDouble(problem)));
      worked.alone.push_back(by_one(problem));
    }
  });
  return worked;
}

class ConformanceMatrixTest : public ::testing::TestWithParam<std::tuple<Case, at::ScalarType>> {
 protected:
  static void TearDownTestSuite() {
    std::printf("%-44s", "worst error of any rank's rows");
    for (const char* name : kNamesAndLse) std::printf(" %9s", name);
    std::printf("\n");
    for (const Row& row : rows_) Print(row);
  }

  // Bounds for fp64 and fp32: those of conformance_test.cc, absolute and in units of a score's
  // terms if the result is near 0. For bf16: twice (out) or three times (gradients) the error of
  // one rank, but at least half a unit in the last place; lse is always fp32.
  static double BoundOf(const Problem& problem, int tensor, const at::Tensor& alone,
                        const at::Tensor& want) {
    const double terms = IsNearZero(want) ? std::sqrt(static_cast<double>(problem.q.size(2))) : 1;
    if (problem.q.scalar_type() == at::kDouble) return 1e-12 * terms;
    if (problem.q.scalar_type() == at::kFloat || kMembersAndLse[tensor] == &Solution::lse)
      return 2e-6 * terms;
    return (kMembersAndLse[tensor] == &Solution::out ? 2 : 3) *
           std::max(ErrorOf(alone, want), 1e-3 * terms);
  }

  static inline std::vector<Row> rows_;
};

TEST_P(ConformanceMatrixTest, EveryRankEqualsAttentionWrittenOut) {
  const auto& [value, type] = GetParam();
  const WorkedMatrix& worked = MatrixWorkedIn(type);
  std::vector<std::array<double, kTensors>> worst_of_rank(value.ranks);
  std::vector<std::string> wrong(value.ranks);
  ConnectedRanks(value.ranks)
      .Run([&, &strategy = value.strategy](std::shared_ptr<comm::World> world) {
        const int rank = world->rank();
        const auto attention = *CreateAttention({strategy, world->communicator()});
        for (size_t i = 0; i < worked.problems.size(); ++i) {
          const Problem& problem = worked.problems[i];
          const auto layout = MakeLayout(*attention, problem.lengths);
          const Solution got = SolveWithLse(**attention->Plan(layout), *layout, rank, problem);
          const Solution want = RowsOf(worked.want[i], *layout, rank, problem),
                         alone = RowsOf(worked.alone[i], *layout, rank, problem);
          for (int m = 0; m < kTensors; ++m) {
            const double error = ErrorOf(got.*kMembersAndLse[m], want.*kMembersAndLse[m]),
                         bound =
                             BoundOf(problem, m, alone.*kMembersAndLse[m], want.*kMembersAndLse[m]);
            worst_of_rank[rank][m] = std::max(worst_of_rank[rank][m], error);
            if (!(error <= bound))
              wrong[rank] +=
                  c10::str("\n  ", kNamesAndLse[m], " ", (want.*kMembersAndLse[m]).sizes(), ": ",
                           error, ", expected ", bound, "; ", Said(problem));
          }
        }
      });
  Row row{NameOf(value) + " " + at::toString(type)};
  for (int rank = 0; rank < value.ranks; ++rank) {
    EXPECT_EQ(wrong[rank], "") << "on rank " << rank;
    for (int m = 0; m < kTensors; ++m)
      row.worst[m] = std::max(row.worst[m], worst_of_rank[rank][m]);
  }
  Print(row);
  rows_.push_back(std::move(row));
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceMatrixTest,
                         ::testing::Combine(::testing::ValuesIn(AllCases()),
                                            ::testing::Values(at::kDouble, at::kFloat,
                                                              at::kBFloat16)),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param)) + "_" +
                                  at::toString(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace moonring::attention
