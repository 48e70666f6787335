#include "kernels/choice.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace moonring::kernels {
namespace {

TEST(ChoiceTest, WordsOfTheEnvironment) {
  EXPECT_TRUE(FusedFrom(nullptr).value());
  EXPECT_TRUE(FusedFrom("fused").value());
  EXPECT_FALSE(FusedFrom("composed").value());
  EXPECT_EQ(FusedFrom("fuse").status().message(),
            "MOONRING_KERNELS='fuse': expected fused or composed");
}

// On the CPU, LibTorch's operators are used, even in a program that contains the kernels, like this
// test. (GPU tensors are tested in tests/model/blocks/kernels_test.cc, on a simulated GPU.)
TEST(ChoiceTest, NotOnTheCpu) { EXPECT_FALSE(UseKernel(at::ones({1}), "moonring::rms_norm")); }

}  // namespace
}  // namespace moonring::kernels
