// Strategies by name: how names are resolved, costs, errors, and the choice of "auto".

#include "attention/strategy/strategies.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention/kernels/reference_block_attention.h"
#include "attention/kernels/threaded_tile_runner.h"
#include "attention/kernels/tile_plan.h"
#include "attention/strategy/attention_cost.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using comm::Division;
using comm::Ownership;
using comm::Placement;
using moonring::testing::RelativeError;
using moonring::testing::RunRanks;
using moonring::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(StrategiesTest, RunOnTheReferenceKernelsToo) {
  at::manual_seed(3);
  const Problem problem =
      RandomProblem({65, 7}, {6, 3}, at::kFloat, /*window=*/40, /*softcap=*/1.5);
  const Solution want = Written(problem);
  const TileRunners reference = [](const at::Device&) {
    return std::make_shared<ThreadedTileRunner>(std::make_shared<ReferenceBlockAttention>());
  };
  for (const std::string& name : NamesOnRanks()) {
    const Solution got = SolveAll({.name = name}, 2, {problem}, reference)[0];
    for (int m = 0; m < 4; ++m)
      EXPECT_TRUE(RelativeError(got.*kMembers[m], want.*kMembers[m], 2e-6))
          << name << " " << kNames[m];
  }
}

TEST(StrategiesTest, SixteenRanks) {
  at::manual_seed(5);
  const std::vector<Problem> problems = {
      RandomProblem({700, 3, 65}, {4, 2}, at::kDouble),
      RandomProblem({1500}, {6, 3}, at::kDouble, /*window=*/100)};
  const std::vector<Solution> want = {Written(problems[0]), Written(problems[1])};
  RunRanks(16, [&](std::shared_ptr<comm::World> world) {
    for (const std::string& name : NamesOnRanks()) {
      ASSERT_OK_AND_ASSIGN(const auto attention,
                           CreateAttention({{.name = name}, world->communicator()}));
      for (size_t i = 0; i < problems.size(); ++i) {
        const Solution got = Solve(*attention, world->rank(), problems[i]);
        const auto layout = MakeLayout(*attention, problems[i].lengths);
        for (int m = 0; m < 4; ++m) {
          const at::Tensor of_rank = layout->Cut(want[i].*kMembers[m], world->rank());
          // Relative to the norm of the whole result: a rank with a few rows has gradients near 0.
          const double bound = 1e-12 * (want[i].*kMembers[m]).norm().item<double>();
          EXPECT_LE((got.*kMembers[m] - of_rank).norm().item<double>(), bound)
              << name << " " << kNames[m];
        }
      }
    }
    EXPECT_OK(world->communicator()->Barrier());  // a rank without tokens is done early
  });
}

struct Bytes {
  int64_t forward = 0, backward = 0, far = 0;  // of all ranks
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

Bytes BytesOf(const StrategyOptions& options, const std::vector<int64_t>& lengths, int ranks,
              const AttentionShape& shape, int ranks_per_machine = 0) {
  const Strategy strategy = *ResolveStrategy(options, ranks);
  const auto layout = *comm::Layout::Create(lengths, strategy.division, CausalTileArea);
  Bytes bytes;
  for (const RankCost& rank : CostOfAttention(strategy, *layout, shape, ranks_per_machine)) {
    bytes.forward += rank.forward().bytes;
    bytes.backward += rank.backward().bytes;
    bytes.far += rank.forward().far_bytes + rank.backward().far_bytes;
  }
  return bytes;
}

// The bytes that each strategy sends equal the formulas of the literature, for one document that is
// split evenly over P = 4 ranks: bf16, S = 8192 tokens. N and Nk are the numbers of elements of all
// queries and of all keys.
TEST(StrategiesTest, BytesAgainstTheFormulas) {
  const AttentionShape shape{
      .heads = 16, .kv_heads = 4, .head_dim = 64, .element_bytes = 2, .accumulate_bytes = 4};
  const int64_t ranks = 4, n = 8192 * 16 * 64 * 2, nk = 8192 * 4 * 64 * 2;
  const auto bytes = [&](const StrategyOptions& options) {
    return BytesOf(options, {8192}, ranks, shape);
  };
  // Ulysses sends (P-1)/P^2 (2N + 2Nk) per rank, in the forward and in the backward.
  const int64_t ulysses = (ranks - 1) * (2 * n + 2 * nk) / ranks;
  EXPECT_EQ(bytes({.name = "ulysses"}), (Bytes{ulysses, ulysses}));
  // P: ranks; N and Nk: elements of all queries, and of all keys.
  // A ring sends 2Nk (P-1)/P elements of keys and values per rank in the forward. The backward
  // sends as much, and also gradients of 2Nk (P-1)/P elements in fp32. A contiguous layout only
  // sends the half that later ranks need. A zigzag layout sends 3/4: both chunks to earlier ranks,
  // only the front one to later ranks.
  const int64_t relay = 2 * nk * (ranks - 1);
  EXPECT_EQ(bytes({.name = "ring"}), (Bytes{relay / 2, relay / 2 + relay}));
  EXPECT_EQ(bytes({.name = "zigzag-ring"}), (Bytes{relay / 4 * 3, relay / 4 * 3 * 3}));
  // All-gather would send 2Nk (P-1)/P per rank if all keys were gathered; for a causal document in
  // zigzag layout it sends as much as the ring.
  EXPECT_EQ(bytes({.name = "all-gather"}), (Bytes{relay / 4 * 3, relay / 4 * 3 * 3}));
  // usp 2 x 2: (Pu-1)/Pu/P (2N + 2Nk) per rank for heads, 3/4 of 2Nk (Pr-1)/P for keys, with Pu =
  // Pr = 2 ranks along each axis.
  const int64_t heads = (2 * n + 2 * nk) / 2, keys = 2 * nk / 4 * 3;
  EXPECT_EQ(bytes({.name = "usp", .ulysses_degree = 2}), (Bytes{heads + keys, heads + 3 * keys}));
  // A larger example: H=32, Hk=8, D=128, S=128k, P=8, forward and backward. Ulysses sends 0.59 GB
  // per rank.
  const AttentionShape large{
      .heads = 32, .kv_heads = 8, .head_dim = 128, .element_bytes = 2, .accumulate_bytes = 4};
  const Bytes of_eight = BytesOf({.name = "ulysses"}, {131072}, 8, large);
  EXPECT_NEAR(static_cast<double>(of_eight.forward + of_eight.backward) / 8, 0.59e9, 0.01e9);
}

TEST(StrategiesTest, ADoubleRingSendsLessBetweenMachines) {
  const AttentionShape shape{
      .heads = 8, .kv_heads = 8, .head_dim = 64, .element_bytes = 2, .accumulate_bytes = 4};
  const Bytes single = BytesOf({.name = "zigzag-ring"}, {16384}, 8, shape, 4);
  const Bytes windows =
      BytesOf({.name = "double-ring", .ranks_per_machine = 4}, {16384}, 8, shape, 4);
  EXPECT_EQ(windows.far * 4, single.far);
  EXPECT_EQ(BytesOf({.name = "ulysses"}, {16384}, 8, shape).far, 0)
      << "on one machine nothing is far";
}

TEST(StrategiesTest, NothingIsSentForWholeDocuments) {
  const AttentionShape shape{.heads = 8, .kv_heads = 8, .head_dim = 64};
  const std::vector<int64_t> lengths(64, 100);
  for (const std::string name : {"zigzag-ring", "all-gather", "double-ring"})
    EXPECT_EQ(BytesOf({.name = name}, lengths, 8, shape), Bytes()) << name;
}

TEST(StrategiesTest, AxesAreChosenOrGiven) {
  const auto of = [](const StrategyOptions& options, int ranks) {
    return ResolveStrategy(options, ranks)->division;
  };
  EXPECT_EQ(of({.name = "ulysses"}, 6), (Division{1, Ownership::kContiguous, 6}));
  EXPECT_EQ(of({.name = "usp"}, 8), (Division{4, Ownership::kZigzag, 2}));
  EXPECT_EQ(of({.name = "usp", .shape = {.heads = 8, .kv_heads = 4}}, 8),
            (Division{2, Ownership::kZigzag, 4}));
  EXPECT_EQ(of({.name = "usp"}, 7), (Division{7, Ownership::kZigzag, 1}));
  EXPECT_EQ(of({.name = "usp", .ulysses_degree = 4}, 8), (Division{2, Ownership::kZigzag, 4}));
  EXPECT_EQ(of({.name = "usp", .ring_degree = 8}, 8), (Division{8, Ownership::kZigzag, 1}));
  EXPECT_EQ(
      of({.name = "usp", .ulysses_degree = 2, .placement = Placement::kContextFirst}, 4).placement,
      Placement::kContextFirst);
  EXPECT_EQ(of({.name = "usp", .ulysses_degree = 2, .ring_degree = 2}, 4),
            (Division{2, Ownership::kZigzag, 2}));
  const auto window = [](const StrategyOptions& options) {
    return ResolveStrategy(options, 8)->transport->ranks_per_window(8);
  };
  EXPECT_EQ(window({.name = "double-ring"}), 4);
  EXPECT_EQ(window({.name = "double-ring", .ranks_per_machine = 2}), 2);
  EXPECT_EQ(window({.name = "double-ring", .double_ring_window = 8}), 8);
  EXPECT_EQ(window({.name = "all-gather"}), 8);
  EXPECT_EQ(ResolveStrategy({.name = "llama3"}, 4)->name, "all-gather");
  EXPECT_EQ(ResolveStrategy({.name = "ring"}, 1)->name, "dense")
      << "one rank runs the dense plan under any name";
  EXPECT_EQ(DescribeStrategy(*ResolveStrategy({.name = "usp"}, 8)),
            "usp of 4 contexts x 2 heads, head first");
  EXPECT_EQ(DescribeStrategy(*ResolveStrategy({.name = "double-ring"}, 8)),
            "double-ring in windows of 4");
}

TEST(StrategiesTest, AutoChoosesByHeadsLengthsAndLinks) {
  const auto chosen = [](int ranks, const std::vector<int64_t>& lengths, AttentionShape shape,
                         MachineModel machine, int ranks_per_machine = 0) {
    std::string said;
    RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
      const auto attention = CreateAttention(
          {.strategy = {.name = "auto", .ranks_per_machine = ranks_per_machine, .shape = shape},
           .group = world->communicator(),
           .machine = machine});
      ASSERT_OK(attention);
      EXPECT_EQ((*attention)->Divide(lengths), MakeLayout(**attention, lengths)->division());
      if (world->rank() != 0) return;
      said = (*attention)->Describe(lengths);
      EXPECT_THAT(said,
                  StartsWith("auto chose " + (*attention)->Chosen(lengths).value() + " for "));
    });
    return said;
  };
  const AttentionShape grouped{.heads = 32, .kv_heads = 8, .head_dim = 128},
      few{.heads = 2, .kv_heads = 1, .head_dim = 128};
  const std::string said = chosen(4, {4096}, grouped, kGpuMachine);
  EXPECT_THAT(said, HasSubstr("auto chose ulysses for 1 document of 4096 tokens;"))
      << "bytes decide where balance is equal";
  EXPECT_THAT(said, HasSubstr("; all-gather ")) << "it says what the others would cost";
  EXPECT_THAT(chosen(4, {4096}, grouped, {}), HasSubstr("auto chose ulysses"));
  EXPECT_THAT(chosen(4, {32768}, few, kGpuMachine), Not(HasSubstr("auto chose ulysses")))
      << "more ranks than heads: two would be idle";
  EXPECT_THAT(chosen(4, {32768}, few, {}), Not(HasSubstr("auto chose ulysses")));
  EXPECT_THAT(chosen(4, std::vector<int64_t>(64, 256), grouped, kGpuMachine),
              HasSubstr("auto chose zigzag-ring for 64 documents of 16384 tokens"))
      << "whole documents: nothing is sent";
  MachineModel slow_network = kGpuMachine;
  slow_network.far_bytes = 2e9;
  EXPECT_THAT(chosen(4, {262144}, {.heads = 2, .kv_heads = 2, .head_dim = 64}, slow_network, 2),
              HasSubstr("auto chose usp of 2 contexts x 2 heads"))
      << "heads inside a machine, keys between machines";
}

TEST(StrategiesTest, BadOptionsAreStatuses) {
  const auto alone = comm::Communicator::Alone();
  EXPECT_THAT(CreateAttention({{.name = "flash"}, alone}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("unknown attention \"flash\"; known are zigzag-ring, ring, ")));
  EXPECT_THAT(CreateAttention({{.name = "ring"}, nullptr}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no group")));
  EXPECT_THAT(ResolveStrategy({.name = "usp", .ulysses_degree = 3}, 4),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a product of 4")));
  EXPECT_THAT(ResolveStrategy({.name = "usp", .ulysses_degree = 1, .ring_degree = 1}, 4),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a product of 4")));
  EXPECT_THAT(ResolveStrategy({.name = "double-ring", .double_ring_window = 3}, 4),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("double_ring_window 3 does not divide 4 ranks")));
  const std::unique_ptr<Attention> dense = *CreateAttention({{.name = "ring"}, alone});
  EXPECT_EQ(dense->Chosen({}), std::nullopt) << "there was nothing to choose";
  EXPECT_EQ(dense->name(), "dense");
  EXPECT_THAT(dense->Plan(*comm::Layout::Create({5}, {2})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got a layout of 2 x 1")));
  RunRanks(2, [](std::shared_ptr<comm::World> world) {
    EXPECT_THAT(CreateAttention({{.name = "dense"}, world->communicator()}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the group has 2")));
    EXPECT_THAT(CreateAttention({{.name = "auto"}, world->communicator()}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("which were not given")));
    for (const std::string& name : NamesOnRanks()) {
      const auto attention = *CreateAttention({{.name = name}, world->communicator()});
      EXPECT_EQ(attention->name(), name);
      EXPECT_THAT(
          attention->Plan(*comm::Layout::Create({5}, {3, Ownership::kZigzag})).status(),
          StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got a layout of 3 x 1, zigzag")));
    }
  });
}

TEST(StrategiesTest, WrongTensorsThrowBeforeAnythingIsSent) {
  const std::unique_ptr<Attention> attention =
      *CreateAttention({{.name = "dense"}, comm::Communicator::Alone()});
  const std::unique_ptr<PlannedAttention> plan = *attention->Plan(*comm::Layout::Create({5}, {1}));
  const auto message = [&](const at::Tensor& q, const at::Tensor& k, int64_t window = 0,
                           double softcap = 0.0) -> std::string {
    try {
      plan->Forward(q, k, k, {1.0, window, softcap}, nullptr);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  };
  EXPECT_THAT(message(at::randn({4, 2, 8}), at::randn({4, 2, 8})),
              HasSubstr("gives this rank 5 tokens, got q [4, 2, 8]"));
  EXPECT_THAT(message(at::randn({5, 3, 8}), at::randn({5, 2, 8})),
              HasSubstr("3 query heads are no multiple of 2 kv heads"));
  EXPECT_THAT(message(at::randn({5, 2, 8}), at::randn({5, 2, 4})),
              HasSubstr("head dim of q is 8, of k 4"));
  EXPECT_THAT(message(at::randn({5, 2, 8}), at::randn({5, 2, 8}, at::kDouble)),
              HasSubstr("dtypes differ"));
  EXPECT_THAT(message(at::randn({5, 2, 8}).to(at::kInt), at::randn({5, 2, 8}).to(at::kInt)),
              HasSubstr("expected fp32, bf16, fp16 or fp64, got Int"));
  EXPECT_THAT(message(at::randn({5, 2, 8}), at::randn({5, 2, 8}), -3),
              HasSubstr("a window of -3 tokens"));
  for (const double softcap :
       {-30.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(message(at::randn({5, 2, 8}), at::randn({5, 2, 8}), 0, softcap),
                HasSubstr("a softcap of "));
  }
}

}  // namespace
}  // namespace moonring::attention
