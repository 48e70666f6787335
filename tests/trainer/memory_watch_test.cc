#include "trainer/reports/memory_watch.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "trainer/reports/resources.h"

namespace moonring::trainer {
namespace {

using base::MemoryPart;
using base::MemoryScope;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBig = 128 * kMiB;
constexpr int64_t kSlack =
    2 * kMiB;  // what the kernel has not counted yet, and what else the process does

// Waits until the watch has read the current state.
void LetItLook(const MemoryWatch& watch) {
  for (const int64_t before = watch.looks(); watch.looks() < before + 2;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

at::Tensor Touched(int64_t bytes) { return at::ones({bytes}, at::kByte); }

TEST(Resources, AnonymousMemoryIsWhatWasTouchedAndNoFileBacks) {
  const int64_t before = AnonymousBytes();
  ASSERT_GT(before, 0);
  auto* pages = static_cast<char*>(
      mmap(nullptr, kBig, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_LE(AnonymousBytes(), before + kSlack);
  std::memset(pages, 1, kBig);
  EXPECT_NEAR(AnonymousBytes(), before + kBig, kSlack);
  munmap(pages, kBig);
  EXPECT_NEAR(AnonymousBytes(), before, kSlack);
  EXPECT_LE(AnonymousBytes(), ResidentBytes() + kSlack);
}

TEST(MemoryWatch, KeepsThePeakThatCameAndWentAndItsParts) {
  base::InstallMemoryAccount();
  const MemorySample level = ReadMemory(1000);
  MemoryWatch watch(level, std::chrono::milliseconds(1));
  {
    const MemoryScope scope(MemoryPart::kLogits);
    const at::Tensor logits = Touched(kBig);
    LetItLook(watch);
  }
  {
    const MemoryScope scope(MemoryPart::kAttention);
    const at::Tensor attention = Touched(kBig / 2);
    LetItLook(watch);
  }
  const MemoryWatch::Peak peak = watch.peak(5000);
  EXPECT_NEAR(peak.kernel, kBig, kSlack);
  EXPECT_EQ(peak.moment.tensors[MemoryPart::kLogits], kBig);
  EXPECT_EQ(peak.moment.tensors[MemoryPart::kAttention], 0);
  EXPECT_EQ(peak.moment.scripts, 4000);
  EXPECT_NEAR(peak.moment.data, 0, kSlack) << "malloc gave nothing else";
  EXPECT_NEAR(peak.moment.explained(), peak.kernel, kSlack);
}

TEST(MemoryWatch, WhatMallocGaveOtherwiseIsData) {
  base::InstallMemoryAccount();
  MemoryWatch watch(ReadMemory(0), std::chrono::milliseconds(1));
  {
    const std::vector<char> text(kBig, 1);
    LetItLook(watch);
  }
  const MemorySample moment = watch.peak(0).moment;
  EXPECT_NEAR(moment.data, kBig, kSlack);
  EXPECT_EQ(moment.tensors.total(), 0);
}

TEST(MemoryWatch, TakesThePeakSinceTheLastTime) {
  MemoryWatch watch(ReadMemory(0), std::chrono::milliseconds(1));
  const int64_t before = AnonymousBytes();
  {
    const at::Tensor tensor = Touched(kBig);
    LetItLook(watch);
  }
  LetItLook(watch);  // a look that began before does not end after
  EXPECT_GE(watch.TakeKernelPeak(), before + kBig - kSlack);
  EXPECT_LE(watch.TakeKernelPeak(), before + kBig / 2);
  EXPECT_NEAR(watch.peak(0).kernel, kBig, kSlack) << "of the whole time";
}

TEST(MemoryWatch, AmongMomentsThatAreAlikeToTheKernelTheOneWithTheMostInUse) {
  base::InstallMemoryAccount();
  MemoryWatch watch(ReadMemory(0), std::chrono::milliseconds(1));
  const at::Tensor stays = Touched(kBig);
  {
    const MemoryScope scope(MemoryPart::kGradients);
    const at::Tensor comes = Touched(kMiB);
    LetItLook(watch);
  }
  // The kernel counts a little more memory even though less is allocated: these pages belong to no
  // allocator.
  auto* pages = static_cast<char*>(
      mmap(nullptr, 2 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(pages, 1, 2 * kMiB);
  LetItLook(watch);
  munmap(pages, 2 * kMiB);
  EXPECT_EQ(watch.peak(0).moment.tensors[MemoryPart::kGradients], kMiB);
}

}  // namespace
}  // namespace moonring::trainer
