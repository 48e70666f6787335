// The memory predicted by CostOfAttention, compared with the allocations of a rank's thread:
// results, tensors kept from forward to backward, and the peak, within a tenth.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/kernels/cpu_block_attention.h"
#include "attention/strategy/attention_cost.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/problem.h"
#include "tests/testing/allocator_watch.h"
#include "tests/testing/connected_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using moonring::testing::AllocatorWatch;
using moonring::testing::ConnectedRanks;

class MemoryTest : public ::testing::TestWithParam<Case> {};

// Returns each rank's peak bytes in a forward and a backward, without the inputs q, k, v and dout.
std::vector<int64_t> MeasuredPeaks(ConnectedRanks& ranks, const StrategyOptions& strategy,
                                   const Problem& problem) {
  std::vector<int64_t> peaks(ranks.size());
  const AllocatorWatch watch;
  ranks.Run([&](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(const auto attention, CreateAttention({strategy, world->communicator()}));
    const auto layout = MakeLayout(*attention, problem.lengths);
    ASSERT_OK_AND_ASSIGN(const auto plan, attention->Plan(layout));
    const auto leaf = [&](const at::Tensor& stream) {
      return layout->Cut(stream, world->rank()).clone().requires_grad_();
    };
    const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v),
                     dout = leaf(problem.dout).detach();
    const int64_t before = watch.thread_live_bytes();
    watch.ResetThreadPeak();
    const at::Tensor out = plan->Forward(q, k, v, problem.rule(), nullptr);
    const auto gradients = torch::autograd::grad({out}, {q, k, v}, {dout});
    peaks[world->rank()] = watch.thread_peak_bytes() - before;
  });
  return peaks;
}

TEST_P(MemoryTest, IsWhatTheCostSays) {
  const StrategyOptions& strategy = GetParam().strategy;
  ConnectedRanks ranks(GetParam().ranks);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{4096}, {1500, 700, 64, 1, 900}}) {
      const Heads heads = lengths.size() == 1 ? Heads{8, 4, 64} : Heads{8, 4, 96, 48};
      const Problem problem = RandomProblem(lengths, heads, type);
      SCOPED_TRACE(Said(problem) + " " + at::toString(type));
      const std::vector<int64_t> measured = MeasuredPeaks(ranks, strategy, problem);
      const Strategy resolved = *ResolveStrategy(strategy, ranks.size());
      std::shared_ptr<const comm::Layout> layout;
      ranks.Run([&](std::shared_ptr<comm::World> world) {
        const auto mine = *CreateAttention({strategy, world->communicator()});
        if (world->rank() == 0) layout = MakeLayout(*mine, lengths);
      });
      AttentionShape shape = problem.shape();
      shape.upcasts = ChooseBf16Tiles() == Bf16Tiles::kFp32;
      const AttentionCost cost = CostOfAttention(resolved, *layout, shape);
      for (int rank = 0; rank < ranks.size(); ++rank) {
        // The results are out, dq, dk and dv.
        const int64_t results = layout->local_tokens(rank) * (shape.heads + shape.kv_heads) *
                                (shape.dims().key + shape.dims().value) * shape.element_bytes;
        const auto planned =
            static_cast<double>(results + cost[rank].saved_bytes + cost[rank].peak_bytes);
        EXPECT_NEAR(static_cast<double>(measured[rank]) / planned, 1, 0.1) << "rank " << rank;
        std::printf("%s rank %d %s %zu: %.3f of %.2f MB\n", NameOf(GetParam()).c_str(), rank,
                    at::toString(type), lengths.size(),
                    static_cast<double>(measured[rank]) / planned, planned / 1e6);
      }
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Case& each : AllCases()) {
    if (each.ranks <= 4 && each.ranks != 3 && each.strategy.name != "auto") cases.push_back(each);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, MemoryTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace moonring::attention
