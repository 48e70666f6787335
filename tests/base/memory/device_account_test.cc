// The account of a device's memory by component, which is kept from its allocator's reports. The
// test makes these reports itself.

#include "base/memory/device_account.h"

#include <thread>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include "base/autograd/custom_function.h"

namespace moonring::base {
namespace {

void Report(int64_t block, int64_t bytes, c10::DeviceType device = c10::kCUDA) {
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(block), bytes, 0, 0,
                                   c10::Device(device, device == c10::kCPU ? -1 : 0));
}

TEST(DeviceAccountTest, BlocksAreOfThePartThatTheyWereGivenFor) {
  Report(64, 1000);  // before WatchDevice: not counted
  EXPECT_EQ(PeakDeviceMemory().total(), 0);
  WatchDevice();
  Report(64, -1000);  // allocated before WatchDevice
  EXPECT_EQ(LiveDeviceMemory().total(), 0);
  {
    const MemoryScope scope(MemoryPart::kWeights);
    Report(128, 4096);
  }
  {
    const MemoryScope scope(MemoryPart::kAttention);
    Report(256, 512);
    Report(512, 1024);
  }
  Report(1024, 7, c10::kCPU);
  EXPECT_EQ(LiveDeviceMemory()[MemoryPart::kWeights], 4096);
  EXPECT_EQ(LiveDeviceMemory()[MemoryPart::kAttention], 1536);
  Report(512, -1024);
  Report(256, 2048);  // the block was freed unnoticed, by another thread, and reused
  EXPECT_EQ(LiveDeviceMemory()[MemoryPart::kAttention], 0);
  EXPECT_EQ(LiveDeviceMemory()[MemoryPart::kOther], 2048);
  EXPECT_EQ(LiveDeviceMemory().total(), 6144);
  Report(2048, 100);
  Report(2048, -100);
  EXPECT_EQ(PeakDeviceMemory().total(), 6244);
  EXPECT_EQ(PeakDeviceMemory()[MemoryPart::kOther], 2148);
  WatchDevice();  // starts again at zero
  EXPECT_EQ(PeakDeviceMemory().total(), 0);
}

// CountAs of a tensor changes the component that its block is counted for.
TEST(DeviceAccountTest, ATensorsBlockBecomesAnothersPart) {
  WatchDevice();
  const at::Tensor tensor = at::empty({16});  // on the CPU, reported as a device's
  const auto block = reinterpret_cast<int64_t>(tensor.storage().data_ptr().get());
  Report(block, 64);
  CountOnDevice(MemoryPart::kGradients, tensor.narrow(0, 0, 4));
  EXPECT_EQ(LiveDeviceMemory()[MemoryPart::kGradients], 64);
  EXPECT_EQ(LiveDeviceMemory().total(), 64);
  CountOnDevice(MemoryPart::kGradients, at::Tensor());
  CountOnDevice(MemoryPart::kWeights, at::empty({3}));  // a block that was never reported
  EXPECT_EQ(LiveDeviceMemory()[MemoryPart::kWeights], 0);
}

// The account counts the blocks that a backward allocates on any thread, but no blocks of other
// threads.
TEST(DeviceAccountTest, FollowsBackwardAndNoOtherThread) {
  WatchDevice();
  const at::Tensor x = at::ones({2}).requires_grad_(true);
  const at::Tensor y = ApplyToOne({.name = "test",
                                   .forward = [&](Tensors*) -> Tensors { return {x.detach() * 2}; },
                                   .backward = [](BackwardCall& call) -> Tensors {
                                     const MemoryScope scope(MemoryPart::kLogits);
                                     Report(4096, 300);
                                     return {call.gradients[0] * 2};
                                   }},
                                  {x});
  y.sum().backward();
  EXPECT_EQ(LiveDeviceMemory()[MemoryPart::kLogits], 300);
  std::thread([] { Report(8192, 1); }).join();
  EXPECT_EQ(LiveDeviceMemory().total(), 300);
}

}  // namespace
}  // namespace moonring::base
