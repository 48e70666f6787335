#include "tests/testing/gradient_sketch.h"

#include <cmath>
#include <limits>
#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/testing/all_close.h"
#include "tests/testing/tensor_sketch.h"

namespace moonring::testing {
namespace {

using ::testing::ElementsAre;

NamedGradient Named(const std::string& name, const at::Tensor& tensor) {
  const double* first = tensor.const_data_ptr<double>();
  return {name, tensor.sizes().vec(), {first, first + tensor.numel()}};
}

nlohmann::json SketchOf(const std::string& name, const at::Tensor& tensor) {
  return {{"shape", tensor.sizes().vec()},
          {"norm", tensor.norm().item<double>()},
          {"projections", Projections(Named(name, tensor))}};
}

std::string NameOf(int number) { return "model.layers." + std::to_string(number) + ".weight"; }

// The expected values come from a few lines of Python integer arithmetic, independent of sketch.py.
// Sums of integers are exact.
TEST(GradientSketchTest, TheSignsArePythons) {
  EXPECT_THAT(Projections(Named("model.layers.0.mlp.up_proj.weight",
                                at::arange(1, 101, at::kDouble))),
              ElementsAre(-646, -552, 492, -1256, -44, 256, 598, 282, 304, -712, 740, 56, -434,
                          1482, -424, -6));
}

// The mean of the squared estimates is the true squared error, and each estimate is within a factor
// of two of it.
TEST(GradientSketchTest, MeasuresTheDistanceToAnotherTensor) {
  at::manual_seed(1);
  double squares = 0;
  constexpr int kTensors = 500;
  for (int i = 0; i < kTensors; ++i) {
    const at::Tensor golden = at::randn({7, 1 + i % 40}, at::kDouble),
                     other = golden + 1e-6 * at::randn_like(golden);
    const double share = SketchedErrorOf(Named(NameOf(i), other), SketchOf(NameOf(i), golden)) /
                         RelativeErrorOf(other, golden);
    EXPECT_GT(share, 0.5) << i;
    EXPECT_LT(share, 2.0) << i;
    squares += share * share;
  }
  EXPECT_NEAR(squares / kTensors, 1.0, 4 * std::sqrt(2.0 / 16 / kTensors));
}

// An error of ten times the bound in one element is found, and so is an error that does not change
// the norm.
TEST(GradientSketchTest, FindsPlantedErrors) {
  at::manual_seed(2);
  for (int i = 0; i < 200; ++i) {
    const std::string name = NameOf(i);
    const int64_t rows = 2 + i % 30;
    const at::Tensor golden = at::randn({rows, rows}, at::kDouble);
    const nlohmann::json kept = SketchOf(name, golden);
    for (const double bound : {1e-4, 1e-6, 1e-10}) {
      EXPECT_TRUE(SketchedError(name, golden, kept, 0.0));
      at::Tensor off = golden.clone();
      off[i % rows][0] += 10 * bound * golden.norm();
      EXPECT_FALSE(SketchedError(name, off, kept, bound)) << i;
      EXPECT_TRUE(SketchedError(name, golden + (off - golden) / 40, kept, bound)) << i;
      EXPECT_FALSE(SketchedError(name, golden * (1 + 10 * bound), kept, bound)) << i;
      EXPECT_FALSE(SketchedError(name, golden.t(), kept, bound)) << i;
      EXPECT_FALSE(SketchedError(name, golden.flip(0), kept, bound)) << i;
      EXPECT_FALSE(SketchedError(name, -golden, kept, bound)) << i;
      off = golden.clone();
      off[i % rows].neg_();  // one row's sign
      EXPECT_FALSE(SketchedError(name, off, kept, bound)) << i;
    }
    EXPECT_FALSE(SketchedError(name, golden.reshape({-1}), kept, 1.0));  // a different shape
  }
}

TEST(GradientSketchTest, ZerosAndNans) {
  const at::Tensor zeros = at::zeros({3, 2}, at::kDouble);
  const nlohmann::json kept = SketchOf("a", zeros);
  EXPECT_TRUE(SketchedError("a", zeros, kept, 0.0));
  EXPECT_FALSE(SketchedError("a", zeros + 1e-30, kept, 1e9));
  EXPECT_FALSE(SketchedError("a", at::Tensor(), kept, 1e9));
  at::Tensor off = zeros.clone();
  off[2][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(SketchedError("a", off, kept, 1e9));
  EXPECT_FALSE(SketchedError("a", off, SketchOf("a", zeros + 1), 1e9));
}

}  // namespace
}  // namespace moonring::testing
