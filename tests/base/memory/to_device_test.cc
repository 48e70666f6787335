// Copies to the CPU. Copies to a GPU are tested on the simulated device
// (tests/testing/pretend_device).

#include "base/memory/to_device.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace moonring::base {
namespace {

const c10::Device kHost(c10::kCPU);

TEST(ToDeviceTest, WhatIsThereStaysAsItIs) {
  const at::Tensor tensor = at::arange(6, at::kLong).view({2, 3}).t();
  EXPECT_TRUE(ToDevice(tensor, kHost).is_same(tensor));
}

TEST(ToDeviceTest, NumbersOfEachType) {
  const at::Tensor longs = ToDevice(std::vector<int64_t>{1, -2, int64_t{1} << 40}, kHost);
  EXPECT_EQ(longs.scalar_type(), at::kLong);
  EXPECT_TRUE(longs.equal(at::tensor({int64_t{1}, int64_t{-2}, int64_t{1} << 40}, at::kLong)));
  const at::Tensor ints = ToDevice(std::vector<int32_t>{7, -8}, kHost);
  EXPECT_EQ(ints.scalar_type(), at::kInt);
  EXPECT_TRUE(ints.equal(at::tensor({7, -8}, at::kInt)));
  const at::Tensor doubles = ToDevice(std::vector<double>{0.1}, kHost);
  EXPECT_EQ(doubles.scalar_type(), at::kDouble);
  EXPECT_EQ(doubles.item<double>(), 0.1);
  EXPECT_EQ(ToDevice(std::vector<int64_t>(), kHost).sizes(), at::IntArrayRef({0}));
}

TEST(ToDeviceTest, HostTensorsForTheHostAreOrdinary) {
  const at::Tensor host = HostTensorFor(kHost, {2, 3}, at::kFloat);
  EXPECT_EQ(host.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(host.scalar_type(), at::kFloat);
  EXPECT_TRUE(host.is_cpu());
  EXPECT_FALSE(host.is_pinned());
}

}  // namespace
}  // namespace moonring::base
