// Documents that continue others (their parents): for every strategy and layout, outputs and all
// gradients equal those of documents that repeat the shared tokens, computed token by token by the
// recurrence in fp64.
#include "mixers/rule/generations.h"

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "comm/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "tests/mixers/mixing_problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/connected_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::ConnectedRanks;
using ::moonring::testing::CutTensors;
using ::moonring::testing::IsOfRows;
using ::moonring::testing::MakeMixingTensors;
using ::moonring::testing::MixingProblem;
using ::moonring::testing::MixingTensors;
using ::moonring::testing::NamedTensor;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunByTokens;
using ::moonring::testing::RunMixing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct SharedProblem {
  MixingProblem of;
  std::vector<comm::Parent> parents;
};

// Returns parents such that each document continues at the end of its parent.
std::vector<comm::Parent> WholeParents(const std::vector<int64_t>& lengths,
                                       const std::vector<int64_t>& documents) {
  std::vector<comm::Parent> parents;
  for (const int64_t d : documents) parents.push_back({d, d < 0 ? 0 : lengths[d]});
  return parents;
}

std::vector<SharedProblem> SharedProblems() {
  // A long prompt after one of its answers, short and long answers, a document without parent or
  // child; and a prompt of two tokens, so that the convolution of its answers reaches tokens before
  // the prompt.
  const std::vector<int64_t> family = {70, 140, 1, 130, 65, 2, 3, 70, 1};
  const auto answers = WholeParents(family, {1, -1, 1, 1, -1, 1, 5, 5, 7});
  // A document that shares no token of its parent is like one without a parent.
  std::vector<comm::Parent> nothing = answers;
  nothing[6] = {4, 0};
  nothing[8] = {7, 0};
  return {
      {{family}, answers},
      {{family, 2, 4, 8, 6, 4, true}, answers},
      {{family, 3, 3, 8, 6, 0}, answers},
      {{family, 2, 4, 8, 6, 4, false, true, true}, answers},  // a state space
      {{family, 2, 4, 8, 6, 4, false, false}, answers},       // the convolution alone
      {{family}, nothing},
      {{{300, 3, 130}, 1, 2, 8, 6, 4}, WholeParents({300, 3, 130}, {-1, 0, 1})},
      {{{2, 3}, 2, 2, 4, 4, 4}, WholeParents({2, 3}, {1, -1})},  // ranks without rows
      {{{130, 0, 40}, 2, 2, 4, 4, 4}, WholeParents({130, 0, 40}, {-1, 0, 1})},
  };
}

// With the convolution alone, documents may continue their parents in the middle.
SharedProblem InTheMiddle() {
  return {{{100, 30, 3, 5}, 2, 4, 8, 6, 4, false, false}, {{}, {0, 40}, {1, 1}, {2, 0}}};
}

// Returns the rows of the stream that belong to a document with its shared prefix: those of its
// ancestors and its own.
std::vector<int64_t> LineOf(const SharedProblem& problem, int64_t document, int64_t tokens) {
  std::vector<int64_t> rows;
  if (const comm::Parent& parent = problem.parents[document]; parent.document >= 0)
    rows = LineOf(problem, parent.document, parent.tokens);
  int64_t offset = 0;
  for (int64_t d = 0; d < document; ++d) offset += problem.of.lengths[d];
  for (int64_t t = 0; t < tokens; ++t) rows.push_back(offset + t);
  return rows;
}

// Computes the reference: documents that repeat their prefixes. Repeated tokens have no output
// gradient.
std::vector<NamedTensor> Apart(const SharedProblem& problem, const MixingTensors& stream) {
  MixingProblem apart = problem.of;
  apart.lengths.clear();
  std::vector<int64_t> rows, own;  // own: the indices in `rows` of each document's own rows
  for (size_t d = 0; d < problem.of.lengths.size(); ++d) {
    const int64_t length = problem.of.lengths[d];
    const std::vector<int64_t> line = LineOf(problem, static_cast<int64_t>(d), length);
    rows.insert(rows.end(), line.begin(), line.end());
    apart.lengths.push_back(static_cast<int64_t>(line.size()));
    for (int64_t t = length; t > 0; --t) own.push_back(static_cast<int64_t>(rows.size()) - t);
  }
  const at::Tensor index = at::tensor(rows, at::kLong), own_index = at::tensor(own, at::kLong);
  const auto of = [&](const at::Tensor& x) { return x.defined() ? x.index_select(0, index) : x; };
  MixingTensors repeated{of(stream.x), of(stream.g), of(stream.beta), stream.taps,
                         stream.bias,  stream.skip,  of(stream.d_out)};
  at::Tensor counts = at::zeros(index.sizes(), at::kBool).index_fill_(0, own_index, true);
  repeated.d_out.index_fill_(0, counts.logical_not().nonzero().squeeze(1), 0.0);
  std::vector<NamedTensor> made = RunByTokens(apart, repeated);
  for (NamedTensor& named : made) {
    if (named.name == "out") {
      named.tensor = named.tensor.index_select(0, own_index);
    } else if (IsOfRows(named)) {
      std::vector<int64_t> shape = named.tensor.sizes().vec();
      shape[0] = stream.x.size(0);
      named.tensor = at::zeros(shape, at::kDouble).index_add_(0, index, named.tensor);
    }
  }
  return made;
}

void ExpectSame(const std::vector<NamedTensor>& made, const std::vector<NamedTensor>& want,
                const comm::Layout& layout, int rank) {
  ASSERT_EQ(made.size(), want.size());
  for (size_t i = 0; i < made.size(); ++i) {
    const at::Tensor rows = IsOfRows(want[i]) ? layout.Cut(want[i].tensor, rank) : want[i].tensor;
    EXPECT_TRUE(RelativeError(made[i].tensor, rows, 1e-10)) << made[i].name;
  }
}

struct Solved {
  std::vector<SharedProblem> problems;
  std::vector<MixingTensors> streams;
  std::vector<std::vector<NamedTensor>> wanted;
};

// The problems with their expected solutions, computed once.
const Solved& Wanted() {
  static const auto* const solved = [] {
    auto* made = new Solved{.problems = SharedProblems()};
    made->problems.push_back(InTheMiddle());
    for (const SharedProblem& problem : made->problems) {
      made->streams.push_back(MakeMixingTensors(problem.of));
      made->wanted.push_back(Apart(problem, made->streams.back()));
    }
    return made;
  }();
  return *solved;
}

class GenerationsTest : public ::testing::TestWithParam<std::tuple<int, MixingStrategy>> {};

TEST_P(GenerationsTest, AreDocumentsThatRepeatWhatTheyShare) {
  const auto [ranks, strategy] = GetParam();
  const Solved& solved = Wanted();
  ConnectedRanks connected(ranks);
  for (const auto ownership :
       {comm::Ownership::kContiguous, comm::Ownership::kZigzag, comm::Ownership::kWholeDocuments}) {
    for (const int heads : {1, ranks}) {
      SCOPED_TRACE(std::string(comm::OwnershipName(ownership)) + ", heads " +
                   std::to_string(heads));
      const comm::Division division{ranks / heads, ownership, heads};
      connected.Run([&, strategy = strategy](std::shared_ptr<comm::World> world) {
        const auto group = world->communicator();
        for (size_t i = 0; i < solved.problems.size(); ++i) {
          SCOPED_TRACE("problem " + std::to_string(i));
          const MixingProblem& problem = solved.problems[i].of;
          const auto layout = comm::Layout::Create(problem.lengths, division).value();
          const auto mixing = PlanMixing(layout, group, {strategy}, solved.problems[i].parents);
          std::vector<NamedTensor> made = RunMixing(
              *mixing, problem, CutTensors(solved.streams[i], *layout, group->rank()), at::kDouble);
          for (NamedTensor& named : made) {
            if (IsOfRows(named)) continue;
            ASSERT_OK(group->AllReduceSum(named.tensor));
          }
          ExpectSame(made, solved.wanted[i], *layout, group->rank());
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Auto, GenerationsTest,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(MixingStrategy::kAuto)));
INSTANTIATE_TEST_SUITE_P(Each, GenerationsTest,
                         ::testing::Combine(::testing::Values(2, 4),
                                            ::testing::ValuesIn(kMixingStrategies)));

TEST(GenerationsOfTest, CountParents) {
  EXPECT_THAT(GenerationsOf({3, 4, 5, 6}, {}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(GenerationsOf({3, 4, 5, 6}, {{2, 5}, {0, 3}, {}, {1, 0}}), ElementsAre(1, 2, 0, 2));
}

TEST(GenerationsOfTest, AConvolutionLooksThroughItsAncestors) {
  const std::vector<comm::Parent> parents = {{}, {0, 40}, {1, 1}};
  EXPECT_THAT(RowsBefore({2, 0, 3}, 4, parents),
              ElementsAre(comm::Span{0, 38, 40}, comm::Span{1, 0, 1}));
  EXPECT_THAT(RowsBefore({2, 1, 3}, 4, parents),
              ElementsAre(comm::Span{0, 39, 40}, comm::Span{1, 0, 1}, comm::Span{2, 0, 1}));
  EXPECT_THAT(RowsBefore({2, 9, 12}, 4, parents), ElementsAre(comm::Span{2, 6, 9}));
  EXPECT_THAT(RowsBefore({0, 2, 12}, 4, parents), ElementsAre(comm::Span{0, 0, 2}));
  EXPECT_THAT(RowsBefore({2, 0, 3}, 1, parents), ElementsAre());
}

TEST(GenerationsOfTest, NoStateIsKeptInsideADocument) {
  SharedProblem problem = InTheMiddle();
  problem.of.rule = true;
  const MixingTensors stream = MakeMixingTensors(problem.of);
  LocalMixing local(problem.of.lengths, problem.parents);
  EXPECT_THAT(
      [&] { RunMixing(local, problem.of, stream, at::kDouble); },
      ThrowsMessage<c10::Error>(HasSubstr(
          "document 1 continues from token 40 of its parent, document 0, expected its end")));
}

}  // namespace
}  // namespace moonring::mixers
