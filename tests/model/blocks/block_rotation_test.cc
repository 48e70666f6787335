#include "model/blocks/block_rotation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/blocks/gated_product.h"
#include "model/blocks/projection.h"
#include "tests/testing/all_close.h"
#include "tests/testing/finite_differences.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::RelativeError;

constexpr int64_t kRotationRows = 7, kBlocks = 3, kSize = 4, kRotationIn = kBlocks * kSize,
                  kRotationOut = 5;

// Returns the skew-symmetric matrix Q of one block, made element by element.
at::Tensor SkewMatrix(const at::Tensor& numbers_E, int64_t size) {
  at::Tensor q = at::zeros({size, size}, numbers_E.options());
  int64_t next = 0;
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = i + 1; j < size; ++j) {
      q[i][j] = numbers_E[next];
      q[j][i] = -numbers_E[next++];
    }
  }
  return q;
}

// Returns the truncated series R_n of the header's equations, summed power by power.
at::Tensor RotationByPowers(const at::Tensor& q, int64_t terms) {
  const at::Tensor identity = at::eye(q.size(0), q.options());
  if (terms == 0) return (identity - q).matmul(at::linalg_inv(identity + q));
  at::Tensor sum = identity.clone(), power = identity;
  const int64_t last = terms < 3 ? terms - 1 : std::max<int64_t>(3, terms - 1);
  for (int64_t k = 1; k <= last; ++k) {
    power = power.matmul(q);
    sum = sum + power * (k == last && last > 1 ? 1.0 : 2.0);
  }
  return sum;
}

class BlockRotationTest : public ::testing::TestWithParam<int64_t> {
 protected:
  BlockRotationTest() {
    at::manual_seed(3);
    skew_ = (at::randn({kBlocks, kSize * (kSize - 1) / 2}, at::kDouble) * 0.3).requires_grad_();
    map_.weight_OI = at::randn({kRotationOut, kRotationIn}, at::kDouble);
    map_.bias_O = at::randn({kRotationOut}, at::kDouble);
    map_.rotation = BlockRotation{skew_, GetParam()};
    x_ = at::randn({kRotationRows, kRotationIn}, at::kDouble).requires_grad_();
    up_ = at::randn({kRotationRows, kRotationIn}, at::kDouble).requires_grad_();
    gradient_ = at::randn({kRotationRows, kRotationOut}, at::kDouble);
  }
  at::Tensor Whole() const {
    std::vector<at::Tensor> blocks;
    for (int64_t n = 0; n < kBlocks; ++n)
      blocks.push_back(RotationByPowers(SkewMatrix(skew_.detach()[n], kSize), GetParam()));
    return at::block_diag(blocks);
  }

  at::Tensor skew_, x_, up_, gradient_;
  Projection map_;
};

TEST_P(BlockRotationTest, IsItsEquations) {
  const at::Tensor change = RotationOf(*map_.rotation), whole = Whole();
  for (int64_t n = 0; n < kBlocks; ++n) {
    const at::Tensor block =
        whole.slice(0, n * kSize, (n + 1) * kSize).slice(1, n * kSize, (n + 1) * kSize);
    EXPECT_TRUE(RelativeError(change[n] + at::eye(kSize, at::kDouble), block, 1e-14)) << n;
  }
  EXPECT_TRUE(RelativeError(Rotate(x_, change), x_.matmul(whole), 1e-14));
  EXPECT_TRUE(RelativeError(RotateBackward(x_, change), x_.matmul(whole.t()), 1e-14));
  const at::Tensor y = Project(map_, x_);
  EXPECT_TRUE(RelativeError(y, x_.matmul(whole).matmul(map_.weight_OI.t()) + map_.bias_O, 1e-14));
  // Rotating the input is equivalent to a linear map with the weight W R^T.
  EXPECT_TRUE(
      RelativeError(y, x_.matmul(map_.weight_OI.matmul(whole.t()).t()) + map_.bias_O, 1e-14));
}

// The rotation is orthogonal up to the omitted terms of its series, Q^p + 2 Q^(p+1) + ..., whose
// norm is at most e = q^p (1 + q) / (1 - q), where q is the largest singular value of Q. So R R^T
// differs from the identity by at most 2 e + e^2.
TEST_P(BlockRotationTest, OrthogonalUpToTheTermsLeftOut) {
  const int64_t terms = GetParam();
  for (const double small : {0.2, 0.5}) {
    for (int64_t n = 0; n < kBlocks; ++n) {
      const at::Tensor q = SkewMatrix(skew_.detach()[n] * small, kSize),
                       identity = at::eye(kSize, at::kDouble);
      const at::Tensor r =
          RotationOf({skew_.detach().narrow(0, n, 1) * small, terms})[0] + identity;
      const auto largest = [](const at::Tensor& x) {
        return at::linalg_svdvals(x).max().item<double>();
      };
      const double off = largest(r.matmul(r.t()) - identity), size = largest(q),
                   power = std::max<int64_t>(3, terms - 1);
      // With 1 term R is the identity; with 2 terms the series omits 2 Q^2 + 2 Q^3 + ...
      const double left = terms == 1   ? 0.0
                          : terms == 2 ? 2 * size * size / (1 - size)
                                       : std::pow(size, power) * (1 + size) / (1 - size);
      ASSERT_LT(size, 0.9);
      EXPECT_LT(off, terms == 0 ? 1e-14 : 2 * left + left * left + 1e-14) << n;
    }
  }
}

TEST_P(BlockRotationTest, GradientsByFiniteDifferences) {
  const auto loss = [&] { return (Project(map_, x_) * gradient_).sum().item<double>(); };
  const auto gradients =
      torch::autograd::grad({Project(map_, x_)}, {x_, skew_}, {gradient_}, {}, {}, true);
  EXPECT_TRUE(RelativeError(gradients[0], FiniteDifferences(loss, x_), kDifferenceBound));
  const at::Tensor wanted = FiniteDifferences(loss, skew_);
  if (GetParam() == 1) {
    EXPECT_EQ(gradients[1].abs().max().item<double>(), 0.0);
    EXPECT_LT(wanted.abs().max().item<double>(), 1e-10);
  } else {
    EXPECT_TRUE(RelativeError(gradients[1], wanted, kDifferenceBound));
  }
}

TEST_P(BlockRotationTest, GatedByFiniteDifferences) {
  for (const bool has_up : {true, false}) {
    const at::Tensor up = has_up ? up_ : at::Tensor();
    const Activation activation = has_up ? Activation::kSilu : Activation::kGeluTanh;
    const auto run = [&] { return ProjectGated(map_, x_, up, activation); };
    const auto loss = [&] { return (run() * gradient_).sum().item<double>(); };
    std::vector<at::Tensor> leaves = {x_, skew_};
    if (has_up) {
      leaves.push_back(up_);
      Projection plain = map_;
      EXPECT_TRUE(BitEqual(run(), Project(plain, GatedProduct(x_, up_, activation))));
    }
    const auto gradients = torch::autograd::grad({run()}, leaves, {gradient_});
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (GetParam() == 1 && i == 1) continue;
      EXPECT_TRUE(RelativeError(gradients[i], FiniteDifferences(loss, leaves[i]), kDifferenceBound))
          << i;
    }
  }
}

// Narrow dtypes: fp32 allows a few roundings of 6e-8, bf16 of 4e-3. The code adds the difference
// that the rotation makes, so where nothing is rotated, x is bit-identical.
TEST_P(BlockRotationTest, NarrowDtypes) {
  const at::Tensor exact = Project(map_, x_);
  const auto wanted = torch::autograd::grad({exact}, {x_, skew_}, {gradient_});
  struct Precision {
    at::ScalarType dtype;
    double bound;
  };
  for (const Precision& p : {Precision{at::kFloat, 2e-6}, Precision{at::kBFloat16, 3e-2}}) {
    const at::Tensor skew = skew_.detach().to(at::kFloat).requires_grad_(),
                     x = x_.detach().to(p.dtype).requires_grad_();
    Projection map{map_.weight_OI.to(p.dtype), map_.bias_O.to(p.dtype)};
    map.rotation = BlockRotation{skew, GetParam()};
    const at::Tensor y = Project(map, x);
    EXPECT_EQ(y.scalar_type(), p.dtype);
    EXPECT_TRUE(RelativeError(y, exact, p.bound));
    const auto gradients = torch::autograd::grad({y}, {x, skew}, {gradient_.to(p.dtype)});
    EXPECT_EQ(gradients[1].scalar_type(), at::kFloat);
    EXPECT_TRUE(RelativeError(gradients[0], wanted[0], p.bound));
    if (GetParam() != 1) {
      EXPECT_TRUE(RelativeError(gradients[1], wanted[1], p.bound));
    }
    Projection still{map.weight_OI, map.bias_O}, none = still;
    still.rotation = BlockRotation{at::zeros_like(skew), GetParam()};
    EXPECT_TRUE(BitEqual(Project(still, x), Project(none, x)));
  }
}

TEST_P(BlockRotationTest, NoRowsAndAFrozenOne) {
  const at::Tensor none = at::empty({0, kRotationIn}, at::kDouble).requires_grad_();
  const at::Tensor y = Project(map_, none) + ProjectGated(map_, none, none, Activation::kSilu);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, kRotationOut}));
  for (const at::Tensor& gradient : torch::autograd::grad({y.sum()}, {none, skew_}))
    EXPECT_EQ(gradient.abs().sum().item<double>(), 0.0);
  Projection frozen = map_;
  frozen.rotation->skew_NE = skew_.detach();
  EXPECT_FALSE(Project(frozen, x_.detach()).requires_grad());
  EXPECT_TRUE(BitEqual(torch::autograd::grad({Project(frozen, x_)}, {x_}, {gradient_})[0],
                       torch::autograd::grad({Project(map_, x_)}, {x_}, {gradient_})[0]));
}

INSTANTIATE_TEST_SUITE_P(Terms, BlockRotationTest, ::testing::Values(0, 1, 2, 3, 4, 5, 6, 9),
                         [](const auto& info) { return "Terms" + std::to_string(info.param); });

TEST(BlockRotationErrorTest, Refuses) {
  EXPECT_EQ(RotatedBlockSize(1), 2);
  EXPECT_EQ(RotatedBlockSize(496), 32);
  EXPECT_THROW(RotatedBlockSize(0), c10::Error);
  EXPECT_THROW(RotatedBlockSize(5), c10::Error);
  Projection map{at::randn({4, 6}), {}};
  map.rotation = BlockRotation{at::zeros({2, 3}), 5};
  const at::Tensor x = at::randn({3, 6});
  EXPECT_NO_THROW(Project(map, x));
  Projection misshapen = map;
  misshapen.rotation->skew_NE = at::zeros({3, 3});
  EXPECT_THROW(Project(misshapen, x), c10::Error);
  EXPECT_THROW(Project(map, at::randn({3, 9})), c10::Error);
  Projection learning = map;
  learning.weight_OI = map.weight_OI.clone().requires_grad_();
  EXPECT_THROW(Project(learning, x), c10::Error);
  Projection both = map;
  both.low_rank = LowRank{at::randn({2, 6}), at::randn({4, 2}), {}, 1.0, {}};
  EXPECT_THROW(Project(both, x), c10::Error);
}

}  // namespace
}  // namespace moonring::model
