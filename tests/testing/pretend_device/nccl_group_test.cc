// The simulated NCCL group detects errors, and moves bytes: two ranks, which are threads of one
// process, with one device each.

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "comm/nccl_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::pretend {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using TensorList = std::vector<at::Tensor>;

// The function that each rank runs, with its group and its device.
using Body = std::function<void(int rank, c10d::Backend& group, c10::Device device)>;

// Runs a function on two ranks and returns the message of each rank's exception, or "".
std::vector<std::string> OnTwoRanks(const Body& body, int devices = 2) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> thrown(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(rank % devices));
        const c10::DeviceGuard guard(device);
        const auto group = comm::MakeNcclGroup(store, rank, 2, std::chrono::seconds(20));
        body(rank, *group, device);
      } catch (const std::exception& exception) {
        thrown[rank] = exception.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return thrown;
}

TEST(PretendNccl, Adds) {
  const auto thrown = OnTwoRanks([](int rank, c10d::Backend& group, c10::Device device) {
    TensorList sum = {at::full({3}, rank + 1.0, device)};
    group.allreduce(sum)->wait();
    EXPECT_EQ(sum[0].cpu()[2].item<float>(), 3);
  });
  EXPECT_THAT(thrown, Each(IsEmpty()));
}

TEST(PretendNccl, ExchangesWhatIsCoalesced) {
  const auto thrown = OnTwoRanks([](int rank, c10d::Backend& group, c10::Device device) {
    TensorList mine = {at::full({2, 2}, 1.0 * rank, device)}, theirs = {at::empty({2, 2}, device)};
    group.startCoalescing();
    group.send(mine, 1 - rank, 0);
    group.recv(theirs, 1 - rank, 0);
    group.endCoalescing()->wait();
    EXPECT_EQ(theirs[0].cpu()[1][1].item<float>(), 1 - rank);
    group.startCoalescing();
    EXPECT_EQ(group.endCoalescing(), nullptr);
  });
  EXPECT_THAT(thrown, Each(IsEmpty()));
}

TEST(PretendNccl, ATensorIsMissingOnOneRank) {
  const auto thrown = OnTwoRanks([](int rank, c10d::Backend& group, c10::Device device) {
    TensorList first = {at::ones({3}, device)}, second = {at::ones({5}, device)};
    if (rank == 0) group.allreduce(first)->wait();
    group.allreduce(second)->wait();
  });
  EXPECT_THAT(
      thrown,
      Each(HasSubstr("rank 0 makes allreduce of Float [3], rank 1 allreduce of Float [5]")));
}

TEST(PretendNccl, RanksCallInOtherOrders) {
  const auto thrown = OnTwoRanks([](int rank, c10d::Backend& group, c10::Device device) {
    TensorList tensors = {at::ones({3}, device)};
    if (rank == 0) group.allreduce(tensors)->wait();
    if (rank == 1) group.broadcast(tensors)->wait();
  });
  EXPECT_THAT(
      thrown,
      Each(HasSubstr("rank 0 makes allreduce of Float [3], rank 1 broadcast of Float [3]")));
}

TEST(PretendNccl, TensorsOfTheHost) {
  const auto thrown = OnTwoRanks([](int, c10d::Backend& group, c10::Device) {
    TensorList tensors = {at::ones({3})};
    group.allreduce(tensors)->wait();
  });
  EXPECT_THAT(thrown, Each(HasSubstr("No backend type associated with device type cpu")));
}

TEST(PretendNccl, TwoRanksOnOneDevice) {
  const auto thrown = OnTwoRanks([](int, c10d::Backend&, c10::Device) {}, /*devices=*/1);
  EXPECT_THAT(thrown, Each(HasSubstr("Duplicate GPU detected : rank 0 and rank 1")));
}

// The run ends while the reduction of its last gradient is queued.
TEST(PretendNcclDeathTest, EndsWhileACallIsQueued) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(OnTwoRanks([](int rank, c10d::Backend& group, c10::Device device) {
                 TensorList sum = {at::full({3}, rank + 1.0, device)};
                 group.allreduce(sum)->wait();  // the current stream waits, the host does not
               }),
               "a group of NCCL ends while its last call of 1 is queued");
}

// The group's stream writes the result; code that does not call wait() reads it too early.
TEST(PretendNccl, NobodyWaits) {
  const auto thrown = OnTwoRanks([](int rank, c10d::Backend& group, c10::Device device) {
    TensorList sum = {at::full({3}, rank + 1.0, device)};
    const auto work = group.allreduce(sum);
    try {
      sum[0].add(1);
    } catch (...) {
      work->wait();
      throw;
    }
  });
  EXPECT_THAT(thrown, Each(HasSubstr("an event is missing")));
}

}  // namespace
}  // namespace moonring::pretend
