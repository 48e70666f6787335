#include "kernels/squared_norms.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

at::Tensor Numbers(int64_t count, at::ScalarType dtype, bool odd) {
  at::Tensor numbers = at::empty({count + 1}, dtype).narrow(0, odd ? 1 : 0, count);
  return numbers.copy_(at::randn({count}, at::kDouble));
}

at::Tensor SquaresInFp64(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> sums;
  for (const at::Tensor& tensor : tensors) sums.push_back(tensor.to(at::kDouble).square().sum());
  return at::stack(sums);
}

class SquaredNormsTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(29); }
};

TEST_F(SquaredNormsTest, IsFp64s) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    for (const bool odd : {false, true}) {
      std::vector<at::Tensor> tensors;
      for (const int64_t count : {1, 0, 7, 65536, 200003, 131072, 0})
        tensors.push_back(Numbers(count, dtype, odd));
      const Poison poison;
      EXPECT_TRUE(RelativeError(SquaredNorms(tensors), SquaresInFp64(tensors), 1e-14));
      EXPECT_EQ(SquaredNorms({tensors[1]}).item<double>(), 0.0);
    }
  }
}

// More tensors than one launch's table can contain.
TEST_F(SquaredNormsTest, ManyTensors) {
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 2500; ++i) tensors.push_back(Numbers(i % 4, at::kFloat, false));
  const Poison poison;
  EXPECT_TRUE(RelativeError(SquaredNorms(tensors), SquaresInFp64(tensors), 1e-14));
}

TEST_F(SquaredNormsTest, LargeAndNonFiniteNumbers) {
  const auto of = [](double x) { return SquaredNorms({at::full({70000}, x)}).item<double>(); };
  EXPECT_NEAR(of(1e30) / 7e64, 1.0, 1e-6);
  EXPECT_TRUE(std::isnan(of(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(std::isinf(of(-std::numeric_limits<double>::infinity())));
}

// Results are bit-identical for any order of threads and any address of a tensor.
TEST_F(SquaredNormsTest, TheSameBits) {
  const at::Tensor numbers = Numbers(70001, at::kFloat, false),
                   odd = Numbers(70001, at::kFloat, true);
  odd.copy_(numbers);
  const at::Tensor first = SquaredNorms({numbers, odd});
  EXPECT_TRUE(BitEqual(first[0], first[1]));
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    EXPECT_TRUE(BitEqual(SquaredNorms({numbers, odd}), first));
  }
}

TEST_F(SquaredNormsTest, RefusesWhatItCannotRead) {
  EXPECT_THROW(SquaredNorms({}), c10::Error);
  EXPECT_THROW(SquaredNorms({at::zeros({3}), at::zeros({3}, at::kDouble)}), c10::Error);
  EXPECT_THROW(SquaredNorms({at::zeros({4, 4}).t().narrow(0, 0, 2)}), c10::Error);
  EXPECT_THROW(SquaredNorms({at::zeros({4}, at::kLong)}), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
