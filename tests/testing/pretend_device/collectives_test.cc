// NCCL's collectives called by Communicator, and attention that gathers its keys with them, on
// three ranks: threads of one process, with one pretend device (a simulated GPU) each.

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "attention/strategy/strategies.h"
#include "comm/communicator.h"
#include "comm/group.h"
#include "comm/nccl_group.h"
#include "gtest/gtest.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/pretend_device/device.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

constexpr int kRanks = 3;

void OnRanks(const std::function<void(std::shared_ptr<Communicator>, c10::Device)>& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(rank));
      const c10::DeviceGuard guard(device);
      auto group = std::make_shared<Group>();
      group->name = "pretend";
      group->rank = rank;
      group->size = kRanks;
      group->ranks = {0, 1, 2};
      group->cuda = MakeNcclGroup(store, rank, kRanks, std::chrono::seconds(60));
      body(std::make_shared<Communicator>(group), device);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// Returns one rank's rows [rows, 2]: small integers, which are exact in any dtype and order of
// addition.
at::Tensor RowsOfRank(int rank, int64_t rows) {
  return ((at::arange(rows * 2) * 5 + rank) % 7).to(at::kFloat).view({rows, 2});
}

const std::vector<std::vector<int64_t>> kParts = {{4, 4, 4}, {1, 1, 1}, {4, 0, 3}, {0, 0, 0}};

TEST(Collectives, GatherEqualPartsAndOthers) {
  OnRanks([](std::shared_ptr<Communicator> comm, c10::Device device) {
    EXPECT_TRUE(comm->HasCollectives(device));
    EXPECT_FALSE(comm->HasCollectives(at::kCPU));
    std::vector<at::Tensor> wholes, wants;
    std::vector<Communicator::Gathered> tensors;
    int64_t bytes = 0;
    for (const std::vector<int64_t>& rows : kParts) {
      std::vector<at::Tensor> parts;
      for (int r = 0; r < kRanks; ++r) parts.push_back(RowsOfRank(r, rows[r]));
      const at::Tensor want = at::cat(parts);
      const at::Tensor whole = at::empty(want.sizes(), want.options().device(device));
      const int64_t first = std::accumulate(rows.begin(), rows.begin() + comm->rank(), int64_t{0});
      whole.narrow(0, first, rows[comm->rank()]).copy_(parts[comm->rank()].to(device));
      wholes.push_back(whole);
      wants.push_back(want);
      tensors.push_back({whole, rows});
      bytes += 2 * static_cast<int64_t>(parts[comm->rank()].nbytes());
    }
    const Communicator::Counters before = comm->counters();
    auto transfer = comm->StartAllGather(tensors);
    ASSERT_OK(transfer);
    ASSERT_OK(transfer->Wait());
    EXPECT_EQ(comm->counters().bytes_sent - before.bytes_sent, bytes);
    EXPECT_EQ(comm->counters().steps - before.steps, 2);
    for (size_t i = 0; i < wholes.size(); ++i)
      EXPECT_TRUE(BitEqual(wholes[i].cpu(), wants[i])) << i;
    // The collective of a single tensor.
    at::Tensor one = at::full({3, 2}, -1.0, device);
    one[comm->rank()].fill_(comm->rank());
    auto alone = comm->StartAllGather({{one, {1, 1, 1}}});
    ASSERT_OK(alone);
    ASSERT_OK(alone->Wait());
    EXPECT_EQ(one.cpu()[1][1].item<float>(), 1);
    EXPECT_EQ(one.cpu()[2][0].item<float>(), 2);
  });
}

TEST(Collectives, ReduceScatterEqualPartsAndOthers) {
  OnRanks([](std::shared_ptr<Communicator> comm, c10::Device device) {
    for (const std::vector<int64_t>& rows : kParts) {
      const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
      const int64_t first = std::accumulate(rows.begin(), rows.begin() + comm->rank(), int64_t{0});
      const at::Tensor want = (RowsOfRank(0, all) + RowsOfRank(1, all) + RowsOfRank(2, all))
                                  .narrow(0, first, rows[comm->rank()]);
      const at::Tensor mine = RowsOfRank(comm->rank(), all).to(device);
      const Communicator::Counters before = comm->counters();
      auto reduction = comm->StartReduceScatterSum(mine, rows);
      ASSERT_OK(reduction);
      ASSERT_OK(reduction->transfer.Wait());
      EXPECT_TRUE(BitEqual(reduction->sum.cpu(), want));
      EXPECT_TRUE(BitEqual(mine.cpu(), RowsOfRank(comm->rank(), all))) << "the caller's";
      EXPECT_EQ(comm->counters().bytes_sent - before.bytes_sent, (all - rows[comm->rank()]) * 8);
      EXPECT_EQ(comm->counters().steps - before.steps, all > 0 ? 2 : 0);
    }
  });
}

// Documents that are split equally over all ranks need one collective for each slice of heads,
// which overlaps with computation, and a sum in fp32. The tolerances, as in varlen_test, allow one
// rounding in bf16.
TEST(Collectives, AttentionGathersKeys) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    // 600 tokens in whole blocks: one document that is split equally; documents whose lengths are
    // not multiples of the block, so that the ranks' shares differ; and one long document with
    // short ones.
    for (const std::vector<int64_t>& lengths :
         std::vector<std::vector<int64_t>>{{384}, {200, 33, 90}, {768, 384}}) {
      at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(3);
      const attention::Problem problem = attention::RandomProblem(lengths, {4, 2, 16}, type);
      const attention::Solution want = attention::Written(problem);
      bool all_equal = false;
      OnRanks([&](std::shared_ptr<Communicator> comm, c10::Device device) {
        auto strategy = attention::CreateAttention({{.name = "all-gather"}, comm});
        ASSERT_OK(strategy);
        const auto layout = attention::MakeLayout(**strategy, lengths);
        auto plan = (*strategy)->Plan(layout, {});
        ASSERT_OK(plan);
        attention::Problem there = problem;
        for (at::Tensor* tensor : {&there.q, &there.k, &there.v, &there.dout})
          *tensor = tensor->to(device);
        const Communicator::Counters before = comm->counters();
        const attention::Solution got =
            attention::SolveWithLse(**plan, *layout, comm->rank(), there);
        const attention::Solution rows = attention::RowsOf(want, *layout, comm->rank(), problem);
        for (const auto member : attention::kMembers) {
          EXPECT_TRUE(
              RelativeError((got.*member).cpu(), rows.*member, type == at::kFloat ? 2e-6 : 8e-3));
        }
        if (comm->rank() > 0) return;
        all_equal = layout->local_tokens(0) == layout->local_tokens(1) &&
                    layout->local_tokens(0) == layout->local_tokens(2);
        const int64_t element = type == at::kFloat ? 4 : 2,
                      own = layout->local_tokens(0) * 2 * 2 * 16;  // of k and v
        // Keys are gathered in the forward and again in the backward, and their gradients are
        // reduced; there are two slices of heads.
        if (!all_equal) return;
        EXPECT_EQ(comm->counters().bytes_sent - before.bytes_sent, 2 * own * (2 * element + 4));
      });
      EXPECT_TRUE(all_equal || lengths.size() == 3);
    }
  }
}

}  // namespace
}  // namespace moonring::comm
