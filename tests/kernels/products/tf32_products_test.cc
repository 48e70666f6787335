// The scope that sets LibTorch's TF32 switch, without a GPU: the test reads the switch.

#include "kernels/products/tf32_products.h"

#include <optional>
#include <stdexcept>

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace moonring::kernels {
namespace {

bool IsOn() { return at::globalContext().allowTF32CuBLAS(); }

class Tf32ProductsTest : public ::testing::Test {
 protected:
  void SetUp() override { at::globalContext().setFloat32MatmulPrecision("highest"); }
};

TEST_F(Tf32ProductsTest, OnAndOffAgain) {
  EXPECT_FALSE(IsOn());
  {
    const Tf32Products no(false);
    EXPECT_FALSE(IsOn());
    const Tf32Products yes(true);
    EXPECT_TRUE(IsOn());
    EXPECT_TRUE(Tf32Products::AreOn());
    {
      const Tf32Products again(true), other(false);
      EXPECT_TRUE(IsOn());
    }
    EXPECT_TRUE(IsOn());
  }
  EXPECT_FALSE(IsOn());
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
}

TEST_F(Tf32ProductsTest, OffAfterAnError) {
  try {
    const Tf32Products yes(true);
    throw std::runtime_error("a product");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(IsOn());
}

// Scopes may overlap, as on two threads.
TEST_F(Tf32ProductsTest, ScopesOverlap) {
  std::optional<Tf32Products> first(std::in_place, true), second(std::in_place, true);
  first.reset();
  EXPECT_TRUE(IsOn());
  second.reset();
  EXPECT_FALSE(IsOn());
}

TEST_F(Tf32ProductsTest, WhatWasOnStaysOn) {
  at::globalContext().setFloat32MatmulPrecision("medium");
  { const Tf32Products yes(true); }
  EXPECT_TRUE(IsOn());
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::MEDIUM);
}

}  // namespace
}  // namespace moonring::kernels
