#include "tests/testing/allocator_watch.h"

#include <thread>

#include <ATen/ATen.h>

#include "gtest/gtest.h"

namespace moonring::testing {
namespace {

TEST(AllocatorWatchTest, CountsLiveAndPeakBytesOfAllThreads) {
  const at::Tensor before = at::zeros({1000});
  const AllocatorWatch watch;
  EXPECT_EQ(watch.live_bytes(), 0);
  at::Tensor kept = at::zeros({10, 10}, at::kDouble);
  std::thread([&] { at::zeros({1 << 20}, at::kByte); }).join();
  EXPECT_EQ(watch.live_bytes(), 800);
  EXPECT_EQ(watch.peak_bytes(), 800 + (1 << 20));
  watch.ResetPeak();
  EXPECT_EQ(watch.peak_bytes(), 800);
  kept = at::Tensor();
  EXPECT_EQ(watch.live_bytes(), 0);
  at::empty({0});
  EXPECT_EQ(watch.peak_bytes(), 800);
}

TEST(AllocatorWatchTest, MemoryMayOutliveItAndIsNotTheNextOnes) {
  at::Tensor first, grown;
  {
    const AllocatorWatch watch({.poison = true});
    EXPECT_ANY_THROW(AllocatorWatch());
    first = at::ones({100});
    grown = at::ones({100});
  }
  const AllocatorWatch watch;
  first = at::Tensor();
  EXPECT_EQ(watch.live_bytes(), 0);
  grown.resize_({100000});
  EXPECT_EQ(grown[99].item<float>(), 1);
  EXPECT_EQ(watch.live_bytes(), 400000) << "grown by the allocator of its storage";
}

TEST(AllocatorWatchTest, PoisonShowsReadsOfUninitializedMemory) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const AllocatorWatch watch({.poison = true});
    EXPECT_TRUE(at::empty({33}, type).isnan().all().item<bool>()) << type;
    EXPECT_FALSE(at::zeros({33}, type).isnan().any().item<bool>()) << type;
  }
}

}  // namespace
}  // namespace moonring::testing
