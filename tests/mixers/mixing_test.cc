// Linear-attention mixing over ranks: for every strategy and layout, outputs and all gradients
// equal those of the recurrence, computed token by token over the whole stream in fp64. Each rank's
// rows are compared, and the gradient of the taps summed over ranks.
//
// fp64: 1e-10 relative (Frobenius); fp32: 2e-6, as for one rank; bf16: at most twice (outputs) and
// three times (gradients) the error of one rank in bf16.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "comm/layout.h"
#include "gtest/gtest.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/over_ranks/mixing_cost.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "tests/mixers/mixing_problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/connected_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::ConnectedRanks;
using ::moonring::testing::CutTensors;
using ::moonring::testing::IsOfRows;
using ::moonring::testing::MakeMixingTensors;
using ::moonring::testing::MixingProblem;
using ::moonring::testing::MixingTensors;
using ::moonring::testing::NamedTensor;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RelativeErrorOf;
using ::moonring::testing::RunByTokens;
using ::moonring::testing::RunMixing;

std::vector<MixingProblem> Problems() {
  const std::vector<int64_t> many = {65, 0, 1, 330, 64, 2, 17};
  return {
      {many},
      {many, 2, 4, 8, 6, 4, true},
      {many, 3, 3, 8, 6, 0},   // no convolution; uneven over 2 and 4 ranks
      {{700}, 1, 2, 8, 6, 4},  // fewer key heads than ranks, and fewer value heads than 3 ranks
      {{1, 130, 0, 1}, 3, 6, 4, 8, 2, true},
      {{3}, 2, 2, 4, 4, 4},  // ranks without rows
      {{}, 2, 2, 4, 4, 4},
      {many, 2, 4, 8, 6, 4, false, false},  // only the convolution
      {{260, 1, 700}, 2, 2, 8, 6, 3, false, false},
      {many, 2, 4, 8, 6, 4, false, true, true},  // a state space
      {{700, 3}, 1, 3, 8, 6, 4, false, true, true},
  };
}

// Returns every way to divide the stream over this many ranks.
std::vector<comm::Division> DivisionsOf(int ranks) {
  std::vector<comm::Division> divisions;
  for (int heads = 1; heads <= ranks; ++heads) {
    if (ranks % heads != 0) continue;
    for (const auto ownership :
         {comm::Ownership::kContiguous, comm::Ownership::kZigzag, comm::Ownership::kWholeDocuments})
      for (const auto placement : {comm::Placement::kHeadFirst, comm::Placement::kContextFirst})
        if (placement == comm::Placement::kHeadFirst || (heads > 1 && heads < ranks))
          divisions.push_back({ranks / heads, ownership, heads, placement});
  }
  return divisions;
}

std::shared_ptr<const comm::Layout> LayoutOf(const std::vector<int64_t>& lengths,
                                             const comm::Division& division) {
  return comm::Layout::Create(lengths, division).value();
}

ConnectedRanks& RanksOf(int ranks) {
  static auto* const connections = new std::map<int, std::unique_ptr<ConnectedRanks>>;
  auto& found = (*connections)[ranks];
  if (found == nullptr) found = std::make_unique<ConnectedRanks>(ranks);
  return *found;
}

class MixingTest : public ::testing::TestWithParam<std::tuple<int, MixingStrategy>> {
 protected:
  static int Ranks() { return std::get<0>(GetParam()); }
  // Runs every problem over every division. Calls `expect` on each rank with the rank's results
  // (summed over ranks where a rank has only a contribution); `want` has its rows of the expected
  // result.
  using Expect = std::function<void(size_t problem, const std::vector<NamedTensor>& made,
                                    const comm::Layout& layout, int rank)>;
  void ForEach(at::ScalarType dtype, const Expect& expect) const {
    const std::vector<MixingProblem> problems = Problems();
    for (const comm::Division& division : DivisionsOf(Ranks())) {
      SCOPED_TRACE(std::string(comm::OwnershipName(division.ownership)) + ", heads " +
                   std::to_string(division.heads));
      RanksOf(Ranks()).Run([&](std::shared_ptr<comm::World> world) {
        for (size_t i = 0; i < problems.size(); ++i) {
          SCOPED_TRACE("problem " + std::to_string(i));
          const auto layout = LayoutOf(problems[i].lengths, division);
          const auto group = world->communicator();
          const auto mixing = PlanMixing(layout, group, {std::get<1>(GetParam())});
          auto made = RunMixing(*mixing, problems[i],
                                CutTensors(MakeTensors(i), *layout, group->rank()), dtype);
          for (NamedTensor& named : made) {
            if (IsOfRows(named)) continue;
            named.tensor = named.tensor.to(dtype == at::kDouble ? at::kDouble : at::kFloat);
            ASSERT_OK(group->AllReduceSum(named.tensor));
          }
          expect(i, made, *layout, group->rank());
        }
      });
    }
  }
  static const MixingTensors& MakeTensors(size_t problem) {
    static const auto* const all = [] {
      auto* tensors = new std::vector<MixingTensors>;
      for (const MixingProblem& p : Problems()) tensors->push_back(MakeMixingTensors(p));
      return tensors;
    }();
    return (*all)[problem];
  }
  // Returns the expected results of a problem, computed token by token in fp64.
  static const std::vector<NamedTensor>& Exact(size_t problem) {
    static const auto* const all = [] {
      auto* exact = new std::vector<std::vector<NamedTensor>>;
      for (size_t i = 0; i < Problems().size(); ++i)
        exact->push_back(RunByTokens(Problems()[i], MakeTensors(i)));
      return exact;
    }();
    return (*all)[problem];
  }
  static at::Tensor RowsOf(const NamedTensor& whole, const comm::Layout& layout, int rank) {
    return IsOfRows(whole) ? layout.Cut(whole.tensor, rank) : whole.tensor;
  }
};

TEST_P(MixingTest, IsTheRecurrenceInFp64) {
  ForEach(at::kDouble, [](size_t problem, const std::vector<NamedTensor>& made,
                          const comm::Layout& layout, int rank) {
    const std::vector<NamedTensor>& exact = Exact(problem);
    ASSERT_EQ(made.size(), exact.size());
    for (size_t i = 0; i < made.size(); ++i)
      EXPECT_TRUE(RelativeError(made[i].tensor, RowsOf(exact[i], layout, rank), 1e-10))
          << made[i].name;
  });
}

TEST_P(MixingTest, InFp32IsNearFp64) {
  ForEach(at::kFloat, [](size_t problem, const std::vector<NamedTensor>& made,
                         const comm::Layout& layout, int rank) {
    const std::vector<NamedTensor>& exact = Exact(problem);
    for (size_t i = 0; i < made.size(); ++i)
      EXPECT_TRUE(RelativeError(made[i].tensor, RowsOf(exact[i], layout, rank), 2e-6))
          << made[i].name;
  });
}

TEST_P(MixingTest, InBf16IsAsExactAsOneRank) {
  std::vector<std::vector<NamedTensor>> alone;
  for (size_t i = 0; i < Problems().size(); ++i) {
    LocalMixing local(Problems()[i].lengths);
    alone.push_back(RunMixing(local, Problems()[i], MakeTensors(i), at::kBFloat16));
  }
  ForEach(at::kBFloat16, [&](size_t problem, const std::vector<NamedTensor>& made,
                             const comm::Layout& layout, int rank) {
    const std::vector<NamedTensor>& exact = Exact(problem);
    for (size_t i = 0; i < made.size(); ++i) {
      const at::Tensor want = RowsOf(exact[i], layout, rank);
      const double one = RelativeErrorOf(RowsOf(alone[problem][i], layout, rank), want);
      // The bound is at least half a unit in the last place.
      EXPECT_TRUE(RelativeError(made[i].tensor, want,
                                (made[i].name == "out" ? 2 : 3) * std::max(one, 1.0 / 512)))
          << made[i].name;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Auto, MixingTest,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(MixingStrategy::kAuto)));
INSTANTIATE_TEST_SUITE_P(Heads, MixingTest,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::Values(MixingStrategy::kHeads)));
INSTANTIATE_TEST_SUITE_P(Spans, MixingTest,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::Values(MixingStrategy::kSpans)));
INSTANTIATE_TEST_SUITE_P(Relay, MixingTest,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::Values(MixingStrategy::kRelay)));

// The strategy `heads` sends a row's channels to the ranks that own the heads, and the outputs
// back. The bytes sent equal the closed form.
TEST(HeadsMixingTest, SendsWhatIsCounted) {
  const MixingProblem problem{{300, 70, 5}, 3, 6, 8, 4, 4};
  const MixingTensors stream = MakeMixingTensors(problem);
  for (const int ranks : {2, 3, 4}) {
    RanksOf(ranks).Run([&](std::shared_ptr<comm::World> world) {
      const auto layout = LayoutOf(problem.lengths, {ranks, comm::Ownership::kZigzag});
      const auto group = world->communicator();
      const int rank = group->rank();
      const auto mixing = PlanMixing(layout, group, {MixingStrategy::kHeads});
      const auto before = group->counters();
      RunMixing(*mixing, problem, CutTensors(stream, *layout, rank), at::kBFloat16);
      // Rank p of P has the value heads [6 p / P, 6 (p + 1) / P). Two value heads share a key head.
      const auto values = [&](int r) { return 6 * (r + 1) / ranks - 6 * r / ranks; };
      const auto keys = [&](int r) { return (6 * (r + 1) / ranks + 1) / 2 - 6 * r / ranks / 2; };
      const auto in = [&](int r) {  // x in bf16, g and beta in fp32
        return 2 * (2 * keys(r) * 8 + values(r) * 4) + values(r) * (4 + 4);
      };
      const auto out = [&](int r) { return 2 * values(r) * 4; };
      int64_t bytes = 0;
      for (int r = 0; r < ranks; ++r) {
        if (r == rank) continue;
        bytes += layout->local_tokens(rank) * (in(r) + out(r));     // x, g, beta; d_out
        bytes += layout->local_tokens(r) * (out(rank) + in(rank));  // out; gradients of x, g, beta
      }
      EXPECT_EQ(group->counters().bytes_sent - before.bytes_sent, bytes);
      EXPECT_EQ(group->counters().steps - before.steps, 4 * (ranks - 1));
    });
  }
}

// The strategy `spans` for one contiguous document on P ranks: each rank r > 0 gets 3 rows of the
// previous rank, and states or maps are sent as span_scan.h describes. The bytes sent equal the
// closed form.
TEST(SpansMixingTest, SendsWhatIsCounted) {
  const MixingProblem problem{{64 * 8}, 2, 4, 8, 6, 4};
  const MixingTensors stream = MakeMixingTensors(problem);
  const int64_t halo = 3 * problem.channels() * 8, b = 4 * 6 * 8 * 8, map = b + 4 * 8 * 8 * 8;
  // Bytes of the forward, by rank. The backward sends the same, starting from the last rank.
  const std::map<int, std::vector<int64_t>> scan = {
      {2, {b, 0}}, {3, {b, map + b, 0}}, {4, {b, map + b + b, map + map, 0}}};
  for (const auto& [ranks, sent] : scan) {
    RanksOf(ranks).Run([&, ranks = ranks, sent = sent](std::shared_ptr<comm::World> world) {
      const auto group = world->communicator();
      const int rank = group->rank();
      const auto mixing =
          PlanMixing(LayoutOf(problem.lengths, {ranks}), group, {MixingStrategy::kSpans});
      const auto layout = LayoutOf(problem.lengths, {ranks});
      const auto before = group->counters();
      RunMixing(*mixing, problem, CutTensors(stream, *layout, rank), at::kDouble);
      EXPECT_EQ(group->counters().bytes_sent - before.bytes_sent,
                sent[rank] + sent[ranks - 1 - rank] + (rank + 1 < ranks ? halo : 0) +
                    (rank > 0 ? halo : 0));
    });
  }
}

// The strategy `relay` for one contiguous document: each rank except the last sends the states of
// all value heads to the next rank, one key head at a time, and gets their gradients back. The
// bytes sent equal the closed form.
TEST(RelayMixingTest, SendsWhatIsCounted) {
  const MixingProblem problem{{64 * 8}, 3, 6, 8, 6, 4};
  const MixingTensors stream = MakeMixingTensors(problem);
  const int64_t halo = 3 * problem.channels() * 8, states = 6 * 6 * 8 * 8;
  for (const int ranks : {2, 3, 4}) {
    RanksOf(ranks).Run([&](std::shared_ptr<comm::World> world) {
      const auto group = world->communicator();
      const int rank = group->rank();
      const auto layout = LayoutOf(problem.lengths, {ranks});
      const auto mixing = PlanMixing(layout, group, {MixingStrategy::kRelay});
      const auto before = group->counters();
      RunMixing(*mixing, problem, CutTensors(stream, *layout, rank), at::kDouble);
      const int ends = (rank + 1 < ranks ? 1 : 0) + (rank > 0 ? 1 : 0);
      EXPECT_EQ(group->counters().bytes_sent - before.bytes_sent, ends * (states + halo));
      // A rank between two neighbors sends to one and receives from the other in the same exchange,
      // except in the first and in the last of the three groups of heads.
      EXPECT_EQ(group->counters().steps - before.steps, 2 * (ends == 2 ? 4 + 1 : 3 + 1));
    });
  }
}

TEST(MixingCostTest, IsTheCommunicatorsAccount) {
  const MixingProblem problem{{300, 70, 5, 700}, 3, 6, 8, 4, 4, true};
  const MixingProblem convolution{problem.lengths, 3, 6, 8, 4, 4, false, false};
  const MixingSizes sizes{3, 6, 8, 4, 4, true, 2, 4};
  const MixingTensors stream = MakeMixingTensors(problem), rows = MakeMixingTensors(convolution);
  for (const int ranks : {2, 3, 4})
    for (const comm::Division& division : DivisionsOf(ranks))
      RanksOf(ranks).Run([&](std::shared_ptr<comm::World> world) {
        const auto layout = LayoutOf(problem.lengths, division);
        const auto group = world->communicator();
        const int rank = group->rank();
        const auto expect = [&](const comm::Communicator::Counters& before,
                                const MixingTraffic& traffic) {
          EXPECT_EQ(group->counters().bytes_sent - before.bytes_sent,
                    traffic.forward.bytes + traffic.backward.bytes);
          EXPECT_EQ(group->counters().steps - before.steps,
                    traffic.forward.steps + traffic.backward.steps);
        };
        for (const MixingStrategy strategy : kMixingStrategies) {
          const auto mixing = PlanMixing(layout, group, {strategy});
          auto before = group->counters();
          RunMixing(*mixing, problem, CutTensors(stream, *layout, rank), at::kBFloat16);
          expect(before, TrafficOfDelta(strategy, *layout, sizes, rank));
          before = group->counters();
          RunMixing(*mixing, convolution, CutTensors(rows, *layout, rank), at::kBFloat16);
          expect(before, TrafficOfConvolution(*layout, problem.channels(), 4, 2, rank));
        }
      });
}

// Machine models in which only one resource costs time.
constexpr double kMuch = std::numeric_limits<double>::infinity();
const MachineModel kOnlyFlops{1, 0, kMuch, 0}, kOnlyBytes{kMuch, 0, 1, 0},
    kOnlySteps{kMuch, 0, kMuch, 1};

TEST(MixingEstimateTest, CountsTheBytesOfTheRankThatSendsMost) {
  for (const int64_t taps : {0, 4}) {
    const MixingSizes sizes{3, 6, 8, 4, taps, true, 2, 4};
    for (const int ranks : {2, 3, 4})
      for (const comm::Division& division : DivisionsOf(ranks)) {
        const auto layout = LayoutOf({300, 70, 5, 700}, division);
        double most = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const MixingTraffic traffic =
              TrafficOfDelta(MixingStrategy::kHeads, *layout, sizes, rank);
          most =
              std::max(most, static_cast<double>(traffic.forward.bytes + traffic.backward.bytes));
        }
        EXPECT_DOUBLE_EQ(EstimateSeconds(MixingStrategy::kHeads, *layout, sizes, kOnlyBytes), most);
      }
  }
  // A document that is divided in order: halos of 3 rows, and messages as in span_scan.h and
  // relay_schedule.h.
  const auto layout = LayoutOf({64 * 8}, {4});
  const MixingSizes sizes{2, 4, 8, 6, 4, false, 2, 4};
  const double halo = 3 * sizes.channels() * 2, b = 4 * 6 * 8 * 4, map = b + 4 * 8 * 8 * 4;
  EXPECT_DOUBLE_EQ(EstimateSeconds(MixingStrategy::kSpans, *layout, sizes, kOnlyBytes),
                   2 * halo + 2 * b + 3 * map);  // ranks 1 and 2
  // On the last rank, the state of the second key head arrives after 4 - 1 other messages.
  EXPECT_DOUBLE_EQ(EstimateSeconds(MixingStrategy::kRelay, *layout, sizes, kOnlyBytes),
                   2 * halo + 2 * 3 * b / 2);
}

TEST(MixingEstimateTest, CountsTheWorkOfTheLastRank) {
  const auto layout = LayoutOf({64 * 16}, {4});  // 256 tokens each
  const MixingSizes sizes{8, 16, 32, 48, 4, false, 2, 4};
  const double token = 2 * (64 * (3 * 32 + 2 * 48) + 3 * 32 * 48 + 64 * 64 / 3.0);
  const double all = 4 * 1024 * 16 * token;
  const auto seconds = [&](MixingStrategy strategy, const MixingSizes& of) {
    return EstimateSeconds(strategy, *layout, of, kOnlyFlops);
  };
  EXPECT_DOUBLE_EQ(seconds(MixingStrategy::kHeads, sizes), all / 4);
  EXPECT_DOUBLE_EQ(seconds(MixingStrategy::kHeads, {3, 6, 32, 48, 4, false, 2, 4}),
                   4 * 1024 * 2 * token)
      << "the fullest rank has two of six heads";
  // Each of the 8 key heads is a group. They pass through the spans of 4 ranks in 8 + 4 - 1 = 11
  // rounds, 3 more than the 8 in which a rank computes its share.
  EXPECT_DOUBLE_EQ(seconds(MixingStrategy::kRelay, sizes), all / 4 * 11 / 8);
  // In units of the rule's forward, a rank's share costs 4 (forward 1, backward 3). On a rank
  // between the first and the last, its map and its contribution to the initial state's gradient
  // cost 1 each: 6 in all. In each direction maps are also composed.
  const double composed = 3 * (2.0 * 16 * 32 * 32 * (32 + 48));
  EXPECT_GT(seconds(MixingStrategy::kSpans, sizes), all / 4 * 6 / 4);
  EXPECT_LT(seconds(MixingStrategy::kSpans, sizes), all / 4 * 6 / 4 + 2 * composed);
  // Whole documents: only the time of the rule itself counts, on the rank with the most tokens.
  const auto whole = LayoutOf({64, 128, 64, 64}, {4, comm::Ownership::kWholeDocuments});
  for (const MixingStrategy strategy : {MixingStrategy::kSpans, MixingStrategy::kRelay}) {
    EXPECT_DOUBLE_EQ(EstimateSeconds(strategy, *whole, sizes, kOnlyFlops), 4 * 128 * 16 * token);
    EXPECT_EQ(EstimateSeconds(strategy, *whole, sizes, kOnlyBytes), 0);
    EXPECT_EQ(EstimateSeconds(strategy, *whole, sizes, kOnlySteps), 0);
  }
}

TEST(MixingEstimateTest, TheLeastIsChosen) {
  const MixingSizes sizes{16, 32, 128, 128, 4, false, 2, 4};
  const auto choose = [&](const std::vector<int64_t>& lengths, comm::Division division,
                          const MachineModel& machine) {
    return ChooseMixing(*LayoutOf(lengths, division), sizes, machine);
  };
  EXPECT_EQ(choose({1 << 16}, {4}, kOnlyFlops), MixingStrategy::kHeads);
  EXPECT_EQ(choose({1 << 16}, {4}, kOnlyBytes), MixingStrategy::kRelay);
  EXPECT_EQ(choose({1 << 16}, {4}, kOnlySteps), MixingStrategy::kSpans);
  EXPECT_EQ(choose({1 << 12, 1 << 12}, {2, comm::Ownership::kWholeDocuments}, MachineModel()),
            MixingStrategy::kSpans)
      << "nothing travels";
  for (const MachineModel& machine : {MachineModel(), kGpuMachine})
    for (const int ranks : {2, 4, 8}) {
      const auto layout = LayoutOf({1 << 14, 300}, {ranks, comm::Ownership::kZigzag});
      const double chosen = EstimateSeconds(MixingStrategy::kAuto, *layout, sizes, machine);
      for (const MixingStrategy strategy : kMixingStrategies)
        EXPECT_LE(chosen, EstimateSeconds(strategy, *layout, sizes, machine));
    }
}

// With the strategy `heads`, the forward is bit-identical to that of one rank, because the products
// of a head are the same.
TEST(HeadsMixingTest, IsOneRankToTheBitForward) {
  const MixingProblem problem{{300, 70, 5, 700}, 4, 8, 16, 24, 4};
  const MixingTensors stream = MakeMixingTensors(problem);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    LocalMixing local(problem.lengths);
    const at::Tensor alone = RunMixing(local, problem, stream, dtype)[0].tensor;
    for (const int ranks : {2, 4})
      RanksOf(ranks).Run([&](std::shared_ptr<comm::World> world) {
        const auto layout = LayoutOf(problem.lengths, {ranks, comm::Ownership::kZigzag});
        const auto group = world->communicator();
        const auto mixing = PlanMixing(layout, group, {MixingStrategy::kHeads});
        const auto made =
            RunMixing(*mixing, problem, CutTensors(stream, *layout, group->rank()), dtype);
        EXPECT_TRUE(BitEqual(made[0].tensor, layout->Cut(alone, group->rank())));
      });
  }
}

}  // namespace
}  // namespace moonring::mixers
