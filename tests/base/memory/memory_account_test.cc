#include "base/memory/memory_account.h"

#include <sys/mman.h>

#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/autograd/parameter.h"
#include "base/status/torch_status.h"
#include "base/threads/parallel_tasks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::base {
namespace {

using ::testing::MatchesRegex;
using ::testing::StartsWith;

class MemoryAccountTest : public ::testing::Test {
 protected:
  MemoryAccountTest() {
    InstallMemoryAccount();
    InstallMemoryAccount();
    before_ = LiveMemory();
  }

  // The bytes of a component since the test began.
  int64_t Now(MemoryPart part) const { return LiveMemory()[part] - before_[part]; }
  int64_t Total() const { return LiveMemory().total() - before_.total(); }

  MemoryByPart before_;
};

TEST_F(MemoryAccountTest, CountsWhatTheInnermostScopeSaysAndTakesItOffAtTheEnd) {
  {
    const at::Tensor outside = at::empty({3, 5});
    const MemoryScope attention(MemoryPart::kAttention);
    const at::Tensor inside = at::empty({7}, at::kDouble);
    {
      const MemoryScope logits(MemoryPart::kLogits);
      const at::Tensor innermost = at::empty({11}, at::kBFloat16);
      EXPECT_EQ(Now(MemoryPart::kLogits), 22);
    }
    EXPECT_EQ(CurrentMemoryPart(), MemoryPart::kAttention);
    EXPECT_EQ(Now(MemoryPart::kOther), 60);
    EXPECT_EQ(Now(MemoryPart::kAttention), 56);
    EXPECT_EQ(Now(MemoryPart::kLogits), 0);
    EXPECT_EQ(Total(), 116);
  }
  EXPECT_EQ(CurrentMemoryPart(), MemoryPart::kOther);
  EXPECT_EQ(Total(), 0);
}

TEST_F(MemoryAccountTest, KeepsLibTorchsAlignment) {
  for (const int64_t bytes : {1, 63, 64, 4097}) {
    const at::Tensor tensor = at::empty({bytes}, at::kByte);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u) << bytes;
  }
}

TEST_F(MemoryAccountTest, AStorageThatGrowsIsCountedAtItsNewSize) {
  const MemoryScope scope(MemoryPart::kGradients);
  at::Tensor tensor = at::empty({10});
  tensor.resize_({1000});
  EXPECT_EQ(Now(MemoryPart::kGradients), 4000);
  tensor.reset();
  EXPECT_EQ(Now(MemoryPart::kGradients), 0);
}

TEST_F(MemoryAccountTest, CountAsMovesTheWholeStorageOfAView) {
  at::Tensor tensor = at::empty({4, 100});
  CountAs(MemoryPart::kCheckpointInputs, tensor.narrow(0, 1, 2));
  EXPECT_EQ(Now(MemoryPart::kOther), 0);
  EXPECT_EQ(Now(MemoryPart::kCheckpointInputs), 1600);
  CountAs(MemoryPart::kWeights, tensor);
  EXPECT_EQ(Now(MemoryPart::kCheckpointInputs), 0);
  EXPECT_EQ(Now(MemoryPart::kWeights), 1600);
  tensor.reset();
  EXPECT_EQ(Total(), 0);
}

TEST_F(MemoryAccountTest, CountAsLeavesForeignMemoryAlone) {
  std::vector<float> mine(100);
  CountAs(MemoryPart::kWeights, at::from_blob(mine.data(), {100}));
  CountAs(MemoryPart::kWeights, at::Tensor());
  CountAs(MemoryPart::kWeights, at::empty({0}));
  EXPECT_EQ(Total(), 0);
}

TEST_F(MemoryAccountTest, AMappingCountsFromItsFirstWriteUntilItIsFreed) {
  constexpr int64_t kBytes = 1 << 16;
  void* const pages =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  bool freed = false;
  const auto unmap = [&freed](void* memory) {
    munmap(memory, kBytes);
    freed = true;
  };
  at::Tensor mapped = at::from_blob(pages, {kBytes / 4}, unmap, at::kFloat);
  const at::Tensor view = mapped.narrow(0, 5, 10);
  for (int i = 0; i < 2; ++i) {
    CountWritten(MemoryPart::kWeights, mapped);
    EXPECT_EQ(Now(MemoryPart::kWeights), kBytes);
    EXPECT_EQ(LiveMemory().mapped - before_.mapped, kBytes);
  }
  mapped.fill_(2);
  EXPECT_EQ(view[0].item<float>(), 2);
  CountAs(MemoryPart::kOther, mapped);
  EXPECT_EQ(Now(MemoryPart::kOther), kBytes);
  mapped.reset();
  EXPECT_FALSE(freed) << "a view still holds it";
  const_cast<at::Tensor&>(view).reset();
  EXPECT_TRUE(freed);
  EXPECT_EQ(Total(), 0);
  EXPECT_EQ(LiveMemory().mapped, before_.mapped);
}

TEST_F(MemoryAccountTest, AScopeIsItsThreadsOwn) {
  const MemoryScope scope(MemoryPart::kLogits);
  std::thread([&] {
    EXPECT_EQ(CurrentMemoryPart(), MemoryPart::kOther);
    const at::Tensor tensor = at::empty({10});
    EXPECT_EQ(Now(MemoryPart::kOther), 40);
    EXPECT_EQ(Now(MemoryPart::kLogits), 0);
  }).join();
}

TEST_F(MemoryAccountTest, ParallelTasksAllocateAsTheirCaller) {
  const int threads = at::get_num_threads();
  at::set_num_threads(4);
  const MemoryScope scope(MemoryPart::kAttention);
  std::vector<at::Tensor> made(64);
  RunParallelTasks(std::vector<double>(made.size(), 1.0),
                   [&](int64_t task) { made[task] = at::empty({1000 + task}); });
  EXPECT_EQ(Now(MemoryPart::kAttention), 4 * (64 * 1000 + 63 * 64 / 2));
  EXPECT_EQ(Now(MemoryPart::kOther), 0);
  at::set_num_threads(threads);
}

TEST_F(MemoryAccountTest, ThePeakHasThePartsOfItsMoment) {
  // Three components allocate more bytes than the previous peak, then each is freed or moved, and
  // fewer bytes are allocated.
  const int64_t more = PeakMemory().total() + 4096;
  {
    at::Tensor weights, logits;
    {
      const MemoryScope scope(MemoryPart::kWeights);
      weights = at::empty({more}, at::kByte);
    }
    {
      const MemoryScope scope(MemoryPart::kLogits);
      logits = at::empty({12345}, at::kByte);
    }
    CountAs(MemoryPart::kGradients, logits);
  }
  const at::Tensor small = at::empty({64});
  const MemoryByPart peak = PeakMemory();
  EXPECT_EQ(peak[MemoryPart::kWeights] - before_[MemoryPart::kWeights], more);
  EXPECT_EQ(peak[MemoryPart::kLogits] - before_[MemoryPart::kLogits], 12345);
  EXPECT_EQ(peak[MemoryPart::kGradients], before_[MemoryPart::kGradients]);
  EXPECT_EQ(peak.total(), before_.total() + more + 12345);
}

TEST_F(MemoryAccountTest, AParametersTensorsAreWeightsLeasesAndGradients) {
  Parameter parameter("w", at::zeros({10, 10}));
  EXPECT_EQ(Now(MemoryPart::kWeights), 400);
  {
    const at::Tensor lease = parameter.Lease(at::kBFloat16);
    EXPECT_EQ(Now(MemoryPart::kWeights), 600);
  }
  const at::Tensor gradient = at::ones({10, 10});
  parameter.AddGradient(gradient);
  EXPECT_EQ(Now(MemoryPart::kGradients), 400);
  EXPECT_EQ(Now(MemoryPart::kOther), 400);
  parameter.ClearGradient();
  parameter.TakeGradient(gradient);  // kept without a copy
  EXPECT_EQ(Now(MemoryPart::kGradients), 400);
  EXPECT_EQ(Now(MemoryPart::kOther), 0);
  parameter.ClearGradient();
  (void)parameter.GradientOrZeros();
  EXPECT_EQ(Now(MemoryPart::kGradients), 800) << "the test holds one more";
}

TEST_F(MemoryAccountTest, ManyThreadsKeepTheAccountCorrect) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 2000; ++i) {
        const MemoryScope scope(static_cast<MemoryPart>((i + t) % kMemoryParts));
        const at::Tensor tensor = at::empty({1 + i % 300});
        CountAs(static_cast<MemoryPart>(i % kMemoryParts), tensor);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(LiveMemory().bytes, before_.bytes);
}

TEST_F(MemoryAccountTest, AFailedAllocationNamesThePartTheSizeAndWhatLives) {
  const MemoryScope weights(MemoryPart::kWeights);
  const at::Tensor live = at::empty({3 << 20});
  const MemoryScope attention(MemoryPart::kAttention);
  const absl::Status status = TryTorch([] { at::empty({int64_t{1} << 52}, at::kByte); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      MatchesRegex("out of memory: 4194304\\.0 GiB for attention \\(weights 12\\.0 MiB.* live\\)"));
  EXPECT_EQ(Now(MemoryPart::kAttention), 0);
  EXPECT_NO_THROW(at::empty({16})) << "the next one that fits succeeds";
}

TEST_F(MemoryAccountTest, AnAllocationOfUnknownSizeIsReportedToo) {
  EXPECT_THAT(OutOfMemory("data and libraries", 0),
              StartsWith("out of memory: no more for data and libraries"));
}

}  // namespace
}  // namespace moonring::base
