#include "kernels/products/gradient_sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/products/products.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RelativeErrorOf;

struct Terms {
  std::vector<at::Tensor> a, b;
  at::Tensor exact;  // sum of a b, in fp64
};

// Random factors a, b of several products, with more rows than one block of the CPU's
// implementation (products.cc). One of the products has an inner dimension of 0.
Terms RandomTerms(at::ScalarType dtype, int64_t rows = 70) {
  at::manual_seed(11);
  Terms terms;
  terms.exact = at::zeros({rows, 9}, at::kDouble);
  for (const int64_t inner : {33, 0, 128, 64}) {
    // `a` is transposed, like dy^T in a weight's gradient.
    terms.a.push_back(at::randn({inner, rows}, at::kDouble).to(dtype).t());
    terms.b.push_back(at::randn({inner, 9}, at::kDouble).to(dtype));
    terms.exact += at::mm(terms.a.back().to(at::kDouble), terms.b.back().to(at::kDouble));
  }
  return terms;
}

at::Tensor Added(const Terms& terms, GradientSum& sum) {
  for (size_t i = 0; i < terms.a.size(); ++i) sum.AddProduct(terms.a[i], terms.b[i]);
  return sum.Take();
}

TEST(GradientSumTest, IsTheSumOfTheProducts) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const Terms terms = RandomTerms(dtype);
    GradientSum sum(dtype);
    const at::Tensor taken = Added(terms, sum);
    EXPECT_EQ(taken.scalar_type(), dtype);
    // 225 terms each, added in another order.
    EXPECT_TRUE(RelativeError(taken, terms.exact, dtype == at::kDouble ? 1e-14 : 1e-6));
    EXPECT_FALSE(sum.Take().defined());
  }
}

// On a CPU, a sum of bf16 products is in fp32: each product is rounded to bf16 (by up to 2^-9, on
// average about half of that) before it is added. If the sum itself were rounded to bf16, the error
// would be larger.
TEST(GradientSumTest, ASumOfBf16IsRoundedByItsTermsAlone) {
  for (const int64_t rows : {70, 200'000}) {
    const Terms terms = RandomTerms(at::kBFloat16, rows);
    GradientSum sum(at::kFloat);
    const at::Tensor taken = Added(terms, sum);
    EXPECT_EQ(taken.scalar_type(), at::kFloat);
    const double error = RelativeErrorOf(taken, terms.exact);
    EXPECT_LE(error, 2e-3) << rows;
    EXPECT_LE(error, RelativeErrorOf(taken.to(at::kBFloat16), terms.exact)) << rows;
  }
}

TEST(GradientSumTest, AccumulatesIntoAGivenTensor) {
  const Terms terms = RandomTerms(at::kBFloat16);
  const at::Tensor before = at::randn({70, 9}), own = before.clone();
  GradientSum sum(at::kFloat);
  sum.AddTo(own);
  EXPECT_FALSE(Added(terms, sum).defined());
  GradientSum alone(at::kFloat);
  const at::Tensor wanted = before + Added(terms, alone);
  EXPECT_TRUE(RelativeError(own, wanted, 1e-6));  // sums in another order
  // After Take(), a new sum starts.
  const at::Tensor kept = own.clone();
  EXPECT_TRUE(Added(terms, sum).defined());
  EXPECT_TRUE(BitEqual(own, kept));
}

TEST(GradientSumTest, WithoutASumTheProductIsHandedOn) {
  const Terms terms = RandomTerms(at::kDouble);
  EXPECT_TRUE(
      BitEqual(GradientProduct(nullptr, terms.a[0], terms.b[0]), Product(terms.a[0], terms.b[0])));
  const auto sum = std::make_shared<GradientSum>(at::kDouble);
  EXPECT_FALSE(GradientProduct(sum, terms.a[0], terms.b[0]).defined());
  EXPECT_TRUE(RelativeError(sum->Take(), Product(terms.a[0], terms.b[0]), 1e-15));
}

// Sums in a wider dtype with beta and alpha equal fp64. With beta 0, the previous contents are not
// read.
TEST(ProductSumsTest, WideSums) {
  const Terms terms = RandomTerms(at::kBFloat16);
  const at::Tensor &a = terms.a[0], &b = terms.b[0];
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble)), old = at::randn({70, 9});
  for (const auto& [beta, alpha] : {std::pair(0.0, 1.0), {0.0, -2.0}, {1.0, 1.0}, {0.5, 3.0}}) {
    const at::Tensor sum =
        beta == 0.0 ? at::full({70, 9}, std::numeric_limits<float>::quiet_NaN()) : old.clone();
    AddProduct(sum, a, b, beta, alpha);
    const at::Tensor wanted =
        exact * alpha + (beta == 0.0 ? at::zeros({}, at::kDouble) : old.to(at::kDouble) * beta);
    EXPECT_TRUE(RelativeError(sum, wanted, 3e-3)) << beta << ", " << alpha;
  }
}

}  // namespace
}  // namespace moonring::kernels
