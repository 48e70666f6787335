// Conditions that must not change a bit of any strategy's results: other models and micro-batches
// at the same time, late messages, uninitialized memory, repeated runs; and, for the forward of
// Ulysses and all-gather, the number of ranks. Also: how the other ranks end if a rank dies.

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/allocator_watch.h"
#include "tests/testing/delaying_backend.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using comm::Placement;
using comm::World;
using moonring::testing::AllocatorWatch;
using moonring::testing::BitEqual;
using moonring::testing::RelativeError;
using moonring::testing::RelativeErrorOf;
using moonring::testing::RunRanks;
using ::testing::HasSubstr;

constexpr int kRanks = 4;

const std::vector<Case> kCases = {
    {{.name = "ulysses"}, kRanks},
    {{.name = "ring"}, kRanks},
    {{.name = "zigzag-ring"}, kRanks},
    {{.name = "double-ring", .double_ring_window = 2}, kRanks},
    {{.name = "all-gather"}, kRanks},
    {{.name = "usp", .ulysses_degree = 2}, kRanks},
    {{.name = "usp", .ulysses_degree = 2, .placement = Placement::kContextFirst}, kRanks},
};

// Documents, one of which is split by every strategy; the short ones stay on one rank.
const std::vector<int64_t> kLengths = {1, 300, 0, 64, 700, 33};
const Heads kNine = {9, 3, 16}, kTwentyEight = {28, 4, 8};

// One rank's rows of the solutions, for each problem.
using Solutions = std::vector<Solution>;

// A forward whose backward has not run yet.
struct OpenCall {
  at::Tensor q, k, v, dout, out;

  Solution Backward() const {
    const auto gradients = torch::autograd::grad({out}, {q, k, v}, {dout});
    return {out.detach(), gradients[0], gradients[1], gradients[2]};
  }
};

// One rank's share of several micro-batches. Micro-batches with the same lengths share a plan, even
// if their numbers of heads differ.
class RankProblems {
 public:
  RankProblems(const StrategyOptions& strategy, std::shared_ptr<comm::Communicator> group,
               const std::vector<Problem>& problems, TileRunners runners)
      : rank_(group->rank()),
        problems_(problems),
        attention_(*CreateAttention({strategy, std::move(group), std::move(runners)})) {
    for (size_t i = 0; i < problems.size(); ++i) {
      size_t same = 0;
      while (problems[same].lengths != problems[i].lengths) ++same;
      layouts_.push_back(same < i ? layouts_[same] : MakeLayout(*attention_, problems[i].lengths));
      plans_.push_back(same < i ? plans_[same] : *attention_->Plan(layouts_[i]));
    }
  }

  OpenCall Forward(size_t i, KeptAttention* kept = nullptr) {
    const auto leaf = [&](const at::Tensor& stream) {
      return layouts_[i]->Cut(stream, rank_).clone().requires_grad_();
    };
    OpenCall call{leaf(problems_[i].q),
                  leaf(problems_[i].k),
                  leaf(problems_[i].v),
                  layouts_[i]->Cut(problems_[i].dout, rank_),
                  {}};
    call.out = plans_[i]->Forward(call.q, call.k, call.v, problems_[i].rule(), kept);
    return call;
  }

  // Runs the forward and backward of each problem, one problem after another.
  Solutions OneByOne() {
    Solutions solutions;
    for (size_t i = 0; i < problems_.size(); ++i) solutions.push_back(Forward(i).Backward());
    return solutions;
  }

  // Runs all forwards, then all backwards in the same or in reverse order.
  Solutions AllLive(bool last_first) {
    std::vector<OpenCall> calls;
    for (size_t i = 0; i < problems_.size(); ++i) calls.push_back(Forward(i));
    Solutions solutions(calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      const size_t next = last_first ? calls.size() - 1 - i : i;
      solutions[next] = calls[next].Backward();
    }
    return solutions;
  }

  // Runs each problem with a second forward that reuses the tensors kept by the first one.
  Solutions Resumed() {
    Solutions solutions;
    for (size_t i = 0; i < problems_.size(); ++i) {
      KeptAttention kept;
      {
        at::NoGradGuard no_grad;
        Forward(i, &kept);
      }
      solutions.push_back(Forward(i, &kept).Backward());
    }
    return solutions;
  }

 private:
  int rank_;
  const std::vector<Problem>& problems_;
  std::unique_ptr<Attention> attention_;
  std::vector<std::shared_ptr<const comm::Layout>> layouts_;
  std::vector<std::shared_ptr<PlannedAttention>> plans_;
};

void ExpectBitEqual(const Solutions& got, const Solutions& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    for (int m = 0; m < 4; ++m) {
      EXPECT_TRUE(BitEqual(got[i].*kMembers[m], want[i].*kMembers[m]))
          << "problem " << i << ", " << kNames[m];
      EXPECT_FALSE((want[i].*kMembers[m]).isnan().any().item<bool>())
          << "problem " << i << ", " << kNames[m];
    }
  }
}

class RobustnessTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::manual_seed(7); }

  // Runs `solve` on each rank, over its own group, and returns the results.
  static std::vector<Solutions> OnRanks(const std::vector<Problem>& problems,
                                        const std::function<Solutions(RankProblems&)>& solve) {
    std::vector<Solutions> of_rank(kRanks);
    RunRanks(kRanks, [&](std::shared_ptr<World> world) {
      RankProblems mine(GetParam().strategy, world->communicator(), problems, DeviceTileRunner);
      of_rank[world->rank()] = solve(mine);
    });
    return of_rank;
  }

  static void ExpectSame(const std::vector<Solutions>& got, const std::vector<Solutions>& want) {
    for (int rank = 0; rank < kRanks; ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      ExpectBitEqual(got[rank], want[rank]);
    }
  }

  static Solutions OneByOne(RankProblems& mine) { return mine.OneByOne(); }
};

// Problems with and without a window and a softcap, in fp32 and bf16.
std::vector<Problem> Several() {
  return {RandomProblem(kLengths, kNine, at::kFloat),
          RandomProblem(kLengths, kNine, at::kBFloat16, /*window=*/100),
          RandomProblem({130, 600}, kTwentyEight, at::kBFloat16),
          RandomProblem({130, 600}, {4, 4, 16}, at::kFloat, /*window=*/5),
          RandomProblem(kLengths, kNine, at::kFloat, /*window=*/0, /*softcap=*/1.5),
          RandomProblem(kLengths, kNine, at::kBFloat16, /*window=*/100, /*softcap=*/1.5)};
}

// Two models with other heads run alternately with one layout and one plan: a call's state must not
// be stored in the plan.
TEST_P(RobustnessTest, ModelsWithOtherHeadsTakeTurns) {
  const std::vector<Problem> problems = {RandomProblem(kLengths, kNine, at::kFloat),
                                         RandomProblem(kLengths, kTwentyEight, at::kFloat),
                                         RandomProblem(kLengths, kNine, at::kFloat, /*window=*/70),
                                         RandomProblem(kLengths, kTwentyEight, at::kFloat)};
  const std::vector<Solutions> nine = OnRanks({problems[0], problems[2]}, OneByOne),
                               twenty_eight = OnRanks({problems[1], problems[3]}, OneByOne);
  std::vector<Solutions> alone(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    alone[rank] = {nine[rank][0], twenty_eight[rank][0], nine[rank][1], twenty_eight[rank][1]};
  ExpectSame(
      OnRanks(problems, [](RankProblems& mine) { return mine.AllLive(/*last_first=*/true); }),
      alone);
}

TEST_P(RobustnessTest, MicroBatchesMayBeLiveAtOnce) {
  const std::vector<Problem> problems = Several();
  ExpectSame(
      OnRanks(problems, [](RankProblems& mine) { return mine.AllLive(/*last_first=*/false); }),
      OnRanks(problems, OneByOne));
}

// Repeated runs are bit-identical, although two intra-op threads take tiles in varying order.
TEST_P(RobustnessTest, AnotherRunGivesTheSameBits) {
  const std::vector<Problem> problems = Several();
  const auto threaded = [](RankProblems& mine) {
    at::set_num_threads(2);
    return mine.OneByOne();
  };
  ExpectSame(OnRanks(problems, OneByOne), OnRanks(problems, OneByOne));
  ExpectSame(OnRanks(problems, threaded), OnRanks(problems, threaded));
}

TEST_P(RobustnessTest, LateMessagesChangeNothing) {
  const std::vector<Problem> problems = Several();
  const std::vector<Solutions> want = OnRanks(problems, OneByOne);
  std::vector<Solutions> got(kRanks);
  std::vector<int64_t> delays(kRanks);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  RunRanks(kRanks, [&](std::shared_ptr<World> world) {
    const testing::DelayedGroup late =
        testing::ConnectDelayed(store, world->rank(), kRanks, /*seed=*/100 + world->rank());
    RankProblems mine(GetParam().strategy, late.communicator, problems, DeviceTileRunner);
    got[world->rank()] = mine.OneByOne();
    delays[world->rank()] = late.backend->delays();
  });
  ExpectSame(got, want);
  EXPECT_THAT(delays, ::testing::Each(::testing::Gt(0)));
}

// No code reads memory before writing it or after freeing it, and nothing remains allocated:
// results do not change if such memory contains NaN.
TEST_P(RobustnessTest, PoisonedMemoryChangesNothing) {
  const std::vector<Problem> problems = Several();
  const std::vector<Solutions> want = OnRanks(problems, OneByOne);
  const AllocatorWatch watch({.poison = true});
  const std::vector<Solutions> once = OnRanks(problems, OneByOne),
                               resumed = OnRanks(problems,
                                                 [](RankProblems&mine) { return mine.Resumed(); });
  EXPECT_GT(watch.peak_bytes(), 0);
  ExpectSame(once, want);
  ExpectSame(resumed, want);
}

// ---- a rank that dies

// A tile runner that fails at the forward-th plan of a forward pass, or at the backward-th plan of
// a backward pass; 0: never.
class FailingRunner final : public TileRunner {
 public:
  FailingRunner(std::shared_ptr<const TileRunner> inner, int forward, int backward)
      : inner_(std::move(inner)), forward_(forward), backward_(backward) {}
  TileGrid grid() const override { return inner_->grid(); }
  at::ScalarType ComputeType(at::ScalarType input) const override {
    return inner_->ComputeType(input);
  }
  void Forward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
               const SoftmaxState& state) const override {
    if (--forward_ == 0) throw std::runtime_error("a kernel fails for the test");
    inner_->Forward(heads, plan, inputs, state);
  }
  void Backward(const RunHeads& heads, const TilePlan& plan, const QueryKeyValue& inputs,
                const QueryResults& results, const QueryKeyValue& gradients) const override {
    if (--backward_ == 0) throw std::runtime_error("a kernel fails for the test");
    inner_->Backward(heads, plan, inputs, results, gradients);
  }

 private:
  std::shared_ptr<const TileRunner> inner_;
  mutable int forward_, backward_;
};

enum class Death { kBeforeForward, kInForward, kBeforeBackward, kInBackward };

// Runs problems while rank 1 dies in its first call or, in a forward with a single plan, in its
// second; the other ranks continue. Returns each rank's final error.
std::vector<std::string> Die(const StrategyOptions& strategy, const std::vector<Problem>& problems,
                             Death death) {
  constexpr int kVictim = 1;
  std::vector<std::string> words(kRanks);
  const auto before =
      signal(SIGPIPE, SIG_IGN);  // Gloo writes to connections that the dead rank has closed
  RunRanks(kRanks, [&](std::shared_ptr<World> world) {
    const bool dies = world->rank() == kVictim;
    const TileRunners runners = [&](const at::Device& device) -> std::shared_ptr<const TileRunner> {
      if (!dies) return DeviceTileRunner(device);
      return std::make_shared<FailingRunner>(DeviceTileRunner(device),
                                             death == Death::kInForward ? 2 : 0,
                                             death == Death::kInBackward ? 1 : 0);
    };
    RankProblems mine(strategy, world->communicator(), problems, runners);
    ASSERT_OK(world->communicator()->Barrier());  // all ranks are connected
    try {
      if (dies && death == Death::kBeforeForward) throw std::runtime_error("killed for the test");
      const OpenCall call = mine.Forward(0);
      if (dies && death == Death::kBeforeBackward) throw std::runtime_error("killed for the test");
      call.Backward();
      mine.OneByOne();
      ADD_FAILURE() << "no error";
    } catch (const std::exception& exception) {
      words[world->rank()] = exception.what();
      if (dies) world->Abort(exception.what());
    }
  });
  signal(SIGPIPE, before);
  return words;
}

// The other ranks' error names the dead rank. It does not come from the timeout (ten minutes),
// whose message differs.
TEST_P(RobustnessTest, ADeadRankEndsTheOthersByName) {
  const std::vector<Problem> problems = {RandomProblem({1100}, {4, 4, 16}, at::kFloat)};
  for (const Death death :
       {Death::kBeforeForward, Death::kInForward, Death::kBeforeBackward, Death::kInBackward}) {
    SCOPED_TRACE("death " + std::to_string(static_cast<int>(death)));
    const std::vector<std::string> words = Die(GetParam().strategy, problems, death);
    for (const int rank : {0, 2, 3}) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      EXPECT_THAT(words[rank], HasSubstr("rank 1 has failed: "));
      EXPECT_THAT(words[rank], HasSubstr("for the test"));
    }
  }
}

// ---- the number of ranks

// Runs the forward of a problem and returns the output of the whole stream.
at::Tensor ForwardOf(const StrategyOptions& strategy, int ranks, const Problem& problem) {
  std::vector<at::Tensor> outs(ranks);
  std::shared_ptr<const comm::Layout> layout;
  RunRanks(ranks, [&](std::shared_ptr<World> world) {
    at::NoGradGuard no_grad;
    const auto attention = *CreateAttention({strategy, world->communicator()});
    const auto mine = MakeLayout(*attention, problem.lengths);
    const auto cut = [&](const at::Tensor& stream) { return mine->Cut(stream, world->rank()); };
    outs[world->rank()] =
        (*attention->Plan(mine))
            ->Forward(cut(problem.q), cut(problem.k), cut(problem.v), problem.rule(), nullptr);
    if (world->rank() == 0) layout = mine;
  });
  return layout->Join(outs);
}

// The forward of Ulysses and all-gather is bit-identical to that of one rank. Blocks have 64
// tokens, or 128 from 8192 tokens on; the last block of a document may have as little as one row.
TEST(RankCountTest, UlyssesAndAllGatherAreBitEqualToOneRank) {
  at::manual_seed(9);
  struct Shape {
    std::vector<int64_t> lengths;
    Heads heads;
    int64_t window = 0;
    double softcap = 0.0;
  };
  const std::vector<Shape> shapes = {
      {{1024}, {8, 4, 16}},
      {{1000}, {8, 4, 16}},
      {{512, 513, 64}, {9, 3, 16}},
      {{65, 66, 67, 130, 200, 3}, {4, 4, 7}},
      {{1, 2, 700, 100}, {5, 5, 16}},
      {{63, 400}, {28, 4, 8}},
      {{129, 450}, {7, 1, 20}},
      {{66, 131, 198}, {6, 1, 16}},
      {{1024}, {8, 4, 16}, 64},
      {{999, 65}, {9, 3, 16}, 100},
      {{8192 + 77}, {3, 1, 16}, 300},
      {{1, 2, 700, 100}, {9, 3, 16}, 0, 1.5},
      {{65, 66, 67, 130, 200, 3}, {7, 1, 7}, 100, 1.5},
      {{8192 + 77}, {3, 1, 16}, 0, 50.0},
      {{65, 66, 67, 130, 200, 3}, {6, 2, 7}},
  };
  for (const Shape& shape : shapes) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Problem problem =
          RandomProblem(shape.lengths, shape.heads, type, shape.window, shape.softcap);
      const at::Tensor want = ForwardOf({.name = "dense"}, 1, problem);
      for (const int ranks : {2, 3, 4, 8}) {
        for (const char* name : {"ulysses", "all-gather"}) {
          EXPECT_TRUE(BitEqual(ForwardOf({.name = name}, ranks, problem), want))
              << name << " on " << ranks << " ranks, " << type << ", heads " << shape.heads.heads
              << "/" << shape.heads.kv_heads << "x" << shape.heads.head_dim << ", lengths from "
              << shape.lengths[0] << ", window " << shape.window << ", softcap " << shape.softcap;
        }
      }
    }
  }
}

// The error in bf16 does not grow with the number of ranks in a ring, because partial results are
// merged in fp32. Merged in bf16, the error would grow with each merge, to twice this bound on 8
// ranks.
TEST(RankCountTest, TheErrorInBf16DoesNotGrowWithTheRing) {
  at::manual_seed(10);
  const Problem problem = RandomProblem({1100}, {4, 2, 64}, at::kBFloat16);
  const Solution want = Written(problem), alone = SolveAll({.name = "dense"}, 1, {problem})[0];
  for (const char* name : {"ring", "zigzag-ring"}) {
    for (const int ranks : {2, 4, 8}) {
      const Solution got = SolveAll({.name = name}, ranks, {problem})[0];
      for (int m = 0; m < 4; ++m)
        EXPECT_TRUE(RelativeError(got.*kMembers[m], want.*kMembers[m],
                                  1.1 * RelativeErrorOf(alone.*kMembers[m], want.*kMembers[m])))
            << name << " on " << ranks << ", " << kNames[m];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RobustnessTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace moonring::attention
