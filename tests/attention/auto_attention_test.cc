// The strategy `auto` chooses the one whose plan has the lowest cost, and computing the costs is
// cheap: the test counts allocations, so that it does not depend on a clock.

#include "attention/strategy/auto_attention.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/attention_cost.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"

namespace {

std::atomic<int64_t> g_allocations = 0;

}  // namespace

void* operator new(size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace moonring::attention {
namespace {

using ::testing::HasSubstr;
using Lengths = std::vector<int64_t>;

constexpr AttentionShape kShape{.heads = 32, .kv_heads = 8, .head_dim = 128};

std::vector<Strategy> Candidates(int ranks, int ranks_per_machine) {
  return CandidatesOfAuto({.ranks_per_machine = ranks_per_machine}, ranks);
}

// Packed streams with one long document, with short ones, and with both.
std::vector<Lengths> Packs() {
  std::vector<Lengths> packs = {{65536}, Lengths(200, 300), {20000, 40, 9000, 0, 3000, 3000, 1}};
  Lengths mixed = {30000};
  for (int64_t d = 0; d < 60; ++d) mixed.push_back(50 + 37 * d % 900);
  packs.push_back(mixed);
  return packs;
}

struct Costs {
  AttentionCost exact, estimate;
};

Costs CostsOf(const Strategy& strategy, const Lengths& lengths, int per_machine, int64_t window) {
  AttentionShape shape = kShape;
  shape.window = window;
  const auto layout = comm::Layout::Create(lengths, strategy.division, CausalTileArea).value();
  return {CostOfAttention(strategy, *layout, shape, per_machine),
          EstimateCost(strategy, *layout, shape, per_machine)};
}

TEST(AutoAttention, CountsExactlyUpTo32Ranks) {
  for (const int ranks : {2, 6, 8, 32}) {
    for (const Strategy& strategy : Candidates(ranks, 2)) {
      for (const Lengths& lengths : Packs()) {
        for (const int64_t window : {0, 1000}) {
          SCOPED_TRACE(::testing::Message()
                       << DescribeStrategy(strategy) << " over " << ranks << ", " << lengths.size()
                       << " documents, window " << window);
          const Costs costs = CostsOf(strategy, lengths, 2, window);
          ASSERT_EQ(costs.exact.size(), costs.estimate.size());
          for (size_t rank = 0; rank < costs.exact.size(); ++rank) {
            const RankCost &exact = costs.exact[rank], &estimate = costs.estimate[rank];
            EXPECT_EQ(exact.tile_area, estimate.tile_area) << rank;
            for (const auto pass : {&RankCost::forward, &RankCost::backward}) {
              EXPECT_EQ((exact.*pass)().bytes, (estimate.*pass)().bytes) << rank;
              EXPECT_EQ((exact.*pass)().far_bytes, (estimate.*pass)().far_bytes) << rank;
              EXPECT_EQ((exact.*pass)().exchanges, (estimate.*pass)().exchanges) << rank;
            }
          }
        }
      }
    }
  }
}

// Above a certain number of ranks, costs are estimated for some ranks only. The slowest rank is one
// of them, or hardly slower than they are.
TEST(AutoAttention, EstimatesTheSlowestOfMoreRanks) {
  for (const int ranks : {48, 64}) {
    for (const Strategy& strategy : Candidates(ranks, 8)) {
      for (const Lengths& lengths : Packs()) {
        for (const MachineModel& machine : {MachineModel(), kGpuMachine}) {
          SCOPED_TRACE(::testing::Message() << DescribeStrategy(strategy) << " over " << ranks
                                            << ", " << lengths.size() << " documents");
          const Costs costs = CostsOf(strategy, lengths, 8, 0);
          const double exact = EstimateSeconds(costs.exact, kShape, machine);
          const double estimate = EstimateSeconds(costs.estimate, kShape, machine);
          EXPECT_LE(estimate, exact * (1 + 1e-12));
          // 0.95: the tolerance for equal costs. The estimate of a double ring does not include
          // keys that a rank only forwards.
          EXPECT_GE(estimate, (strategy.name == "double-ring" ? 0.75 : 0.95) * exact);
        }
      }
    }
  }
}

int64_t AllocationsOfAChoice(int ranks, const Lengths& lengths) {
  std::vector<std::unique_ptr<HybridAttention>> candidates;
  for (Strategy& strategy : Candidates(ranks, 8)) {
    candidates.push_back(std::make_unique<HybridAttention>(std::move(strategy), nullptr, nullptr));
  }
  const AutoAttention chooser(kShape, kGpuMachine, 8, std::move(candidates));
  const int64_t before = g_allocations.load();
  EXPECT_THAT(chooser.Describe(lengths), HasSubstr("auto chose "));
  const int64_t first = g_allocations.load() - before;
  chooser.Describe(lengths);
  EXPECT_LT(g_allocations.load() - before - first, 10) << "it is remembered";
  return first;
}

// With twice the ranks the work is twice as large, and there is one more candidate. Quadratic work
// would be four times as large.
TEST(AutoAttention, AChoiceTakesWorkInProportionToTheRanks) {
  Lengths packed = {1 << 20};
  for (int64_t d = 0; d < 100; ++d) packed.push_back(100 + 29 * d);
  for (const Lengths& lengths : {Lengths{1 << 20}, packed}) {
    int64_t before = AllocationsOfAChoice(64, lengths);
    for (const int ranks : {128, 256, 512}) {
      const int64_t now = AllocationsOfAChoice(ranks, lengths);
      RecordProperty("allocations_" + std::to_string(lengths.size()) + "_" + std::to_string(ranks),
                     std::to_string(now));
      EXPECT_LE(static_cast<double>(now), 2.5 * static_cast<double>(before))
          << ranks << " ranks: " << now << " allocations, half of them: " << before;
      before = now;
    }
  }
}

}  // namespace
}  // namespace moonring::attention
