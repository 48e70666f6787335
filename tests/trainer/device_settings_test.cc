// LibTorch's settings for GPUs. The machine needs no GPU, because the test only reads the settings.

#include "trainer/optimizer/device_settings.h"

#include <cstdlib>
#include <string>

#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>
#include <gtest/gtest.h>

#include "trainer/reports/device_memory.h"

namespace moonring::trainer {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;

// If the user has set either variable, no setting is changed, whatever the variable's value.
TEST(GrowSegmentsTest, UnlessTheUserSaysOtherwise) {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    setenv(name, "max_split_size_mb:200", 1);
    GrowSegments();
    EXPECT_FALSE(AcceleratorAllocatorConfig::use_expandable_segments()) << name;
    unsetenv(name);
  }
  GrowSegments();
  EXPECT_TRUE(AcceleratorAllocatorConfig::use_expandable_segments());
}

TEST(MultiplyAsWrittenTest, WhateverTheMachineSays) {
  setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
  at::globalContext().setFloat32MatmulPrecision("high");
  MultiplyAsWritten();
  EXPECT_EQ(std::getenv("NVIDIA_TF32_OVERRIDE"), nullptr);
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
}

TEST(SetDeterministicTest, ThereAndBack) {
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  SetDeterministic(false);
  EXPECT_EQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
  SetDeterministic(true);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
  EXPECT_FALSE(at::globalContext().deterministicFillUninitializedMemory());
  ASSERT_NE(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
  EXPECT_EQ(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")), ":4096:8");
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  SetDeterministic(true);
  EXPECT_EQ(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")), ":16:8");
  SetDeterministic(false);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

TEST(DeviceMemoryTest, NothingWhereNoGpuWasUsed) {
  ResetDevicePeaks();
  const DeviceMemory memory = ReadDeviceMemory();
  EXPECT_EQ(memory.allocated_peak, 0);
  EXPECT_EQ(memory.reserved_peak, 0);
}

}  // namespace
}  // namespace moonring::trainer
