// Matrix products with few rows: compared with fp64, and a row in a batch compared with the same
// row alone.

#include "kernels/products/few_rows.h"

#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/products/product_scope.h"
#include "kernels/products/products.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

// Error bounds. fp32: sums of some thousand terms. bf16: the rounding of the result, up to 2^-8.
constexpr std::pair<at::ScalarType, double> kTypes[] = {{at::kFloat, 1e-6}, {at::kBFloat16, 4e-3}};

TEST(FewRowsTest, IsTheProduct) {
  at::manual_seed(1);
  for (const auto& [type, bound] : kTypes) {
    for (const int64_t rows : {1, 2, 3, 4, 7, 8, 33, 64, 130}) {
      for (const auto& [columns, depth] : {std::pair<int64_t, int64_t>{1, 1},
                                           {5, 3},
                                           {16, 16},
                                           {50, 577},
                                           {300, 1536},
                                           {17, 40}}) {
        SCOPED_TRACE(::testing::Message() << type << " " << rows << " " << columns << " " << depth);
        const at::Tensor x = at::randn({rows, depth}).to(type),
                         w = at::randn({columns, depth}).to(type);
        ASSERT_TRUE(IsOfFewRows(x, w.t()));
        const at::Tensor wanted = at::matmul(x.to(at::kDouble), w.to(at::kDouble).t());
        at::Tensor out = at::full({rows, columns}, std::nan(""), x.options());
        FewRowsProduct(out, x, w.t(), 0.0, 1.0);
        EXPECT_TRUE(RelativeError(out, wanted, bound));
        const at::Tensor before = at::randn({rows, columns}).to(type);
        out = before.clone();
        FewRowsProduct(out, x, w.t(), 0.5, -2.0);
        EXPECT_TRUE(RelativeError(out, before.to(at::kDouble) * 0.5 - wanted * 2.0, bound));
        // The output is a slice of a wider buffer, as for gate and up projections.
        at::Tensor wide = at::zeros({rows, 2 * columns}, x.options());
        FewRowsProduct(wide.narrow(1, columns, columns), x, w.t(), 0.0, 1.0);
        EXPECT_TRUE(RelativeError(wide.narrow(1, columns, columns), wanted, bound));
        EXPECT_EQ(wide.narrow(1, 0, columns).abs().max().item<double>(), 0.0);
      }
    }
  }
}

TEST(FewRowsTest, ARowIsTheSameAmongOthers) {
  at::manual_seed(2);
  for (const auto& [type, bound] : kTypes) {
    const at::Tensor x = at::randn({150, 333}).to(type), w = at::randn({130, 333}).to(type);
    at::Tensor all = at::empty({150, 130}, x.options());
    FewRowsProduct(all, x, w.t(), 0.0, 1.0);
    for (const auto& [first, rows] :
         {std::pair<int64_t, int64_t>{0, 1}, {5, 1}, {63, 1}, {3, 6}, {60, 90}}) {
      at::Tensor some = at::empty({rows, 130}, x.options());
      FewRowsProduct(some, x.narrow(0, first, rows), w.t(), 0.0, 1.0);
      EXPECT_TRUE(BitEqual(some, all.narrow(0, first, rows)));
    }
  }
}

TEST(FewRowsTest, TakesWhatItIsFor) {
  const at::Tensor x = at::zeros({64, 8}), w = at::zeros({5, 8});
  EXPECT_TRUE(IsOfFewRows(x, w.t()));
  EXPECT_TRUE(IsOfFewRows(at::zeros({65, 8}), w.t()));
  EXPECT_FALSE(IsOfFewRows(at::zeros({0, 8}), w.t()));
  EXPECT_FALSE(IsOfFewRows(x, at::zeros({8, 5})));
  EXPECT_FALSE(IsOfFewRows(x, at::zeros({5, 9}).narrow(1, 0, 8).t()));
  EXPECT_FALSE(IsOfFewRows(x.to(at::kDouble), w.t().to(at::kDouble)));
  EXPECT_FALSE(IsOfFewRows(at::zeros({8, 64}).t(), w.t()));
}

// The implementation for few rows is used within a scope that requests it, and nowhere else.
TEST(FewRowsTest, AScopeAsksForIt) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({9, 700}), w = at::randn({40, 700});
  at::Tensor own = at::empty({9, 40});
  FewRowsProduct(own, x, w.t(), 0.0, 1.0);
  EXPECT_TRUE(BitEqual(Product(x, w.t()), at::mm(x, w.t())));
  const ProductScope scope({.few_rows = true});
  EXPECT_TRUE(BitEqual(Product(x, w.t()), own));
  at::Tensor out = at::zeros({9, 40});
  ProductInto(out, x, w.t());
  EXPECT_TRUE(BitEqual(out, own));
  AddProduct(out, x, w.t());
  EXPECT_TRUE(BitEqual(out, own + own));
  const at::Tensor many = at::randn({100, 700});
  EXPECT_TRUE(BitEqual(Product(many, w.t())[99], Product(many.narrow(0, 99, 1), w.t())[0]));
}

}  // namespace
}  // namespace moonring::kernels
