#include "kernels/products/products.h"

#include <omp.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "gtest/gtest.h"
#include "kernels/products/onednn_products.h"
#include "kernels/products/product_scope.h"
#include "kernels/products/product_timing.h"

namespace moonring::kernels {
namespace {

ProductChoice Choice(const std::string& text) { return ParseProductChoice(text).value(); }

class ProductsTest : public ::testing::Test {
 protected:
  ProductsTest() : threads_(omp_get_max_threads()) { at::manual_seed(3); }
  ~ProductsTest() override { omp_set_num_threads(threads_); }

 private:
  const int threads_;
};

double Off(const at::Tensor& made, const at::Tensor& wanted) {
  const double norm = wanted.norm().item<double>();
  const double off = (made.to(at::kDouble) - wanted).norm().item<double>();
  return norm == 0.0 ? off : off / norm;
}

at::Tensor Exact(const at::Tensor& a, const at::Tensor& b) {
  return at::mm(a.to(at::kDouble), b.to(at::kDouble));
}

// Memory layouts of matrices that layers use, and a matrix of this size in such a layout.
enum class Layout { kRows, kColumns, kRowsOfMore, kColumnsOfMore, kEverySecond };
at::Tensor Matrix(int64_t rows, int64_t columns, Layout layout, at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(at::kFloat);
  switch (layout) {
    case Layout::kRows:
      return at::randn({rows, columns}, options).to(dtype);
    case Layout::kColumns:
      return at::randn({columns, rows}, options).to(dtype).t();
    case Layout::kRowsOfMore:
      return at::randn({rows, columns + 7}, options).to(dtype).narrow(1, 3, columns);
    case Layout::kColumnsOfMore:
      return at::randn({columns, rows + 5}, options).to(dtype).narrow(1, 2, rows).t();
    case Layout::kEverySecond:
      return at::randn({rows, 2 * columns}, options).to(dtype).slice(1, 0, 2 * columns, 2);
  }
  return {};
}

constexpr Layout kLayouts[] = {Layout::kRows, Layout::kColumns, Layout::kRowsOfMore,
                               Layout::kColumnsOfMore, Layout::kEverySecond};

// Error bounds compared with fp64. fp32: K terms of size 1 with random signs have an error of about
// sqrt(K) 6e-8, relative to a norm of sqrt(K), times a factor for the order of sums: 1e-6. bf16's
// result is rounded by at most 2^-9: 4e-3; fp16's by 2^-12: 5e-4.
double Tolerance(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-6 : dtype == at::kHalf ? 5e-4 : 4e-3;
}

// Parameters: the library that computes the product, and the dtype.
class EveryProductTest
    : public ProductsTest,
      public ::testing::WithParamInterface<std::tuple<const char*, at::ScalarType>> {};

TEST_P(EveryProductTest, IsRightInEveryLayoutAndSize) {
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = {
      {1, 1, 1},        {3, 5, 7},       {64, 33, 17},    {65, 1, 90},
      {255, 70, 64},    {256, 64, 1},    {257, 31, 65},   {700, 130, 66},
      {100, 2100, 259}, {300, 257, 300}, {300, 24, 30000}};
  const auto& [by, dtype] = GetParam();
  const ProductScope scope(Choice(by));
  for (const auto& [m, n, k] : sizes) {
    for (const Layout of_a : kLayouts) {
      for (const Layout of_b : kLayouts) {
        const at::Tensor a = Matrix(m, k, of_a, dtype), b = Matrix(k, n, of_b, dtype);
        const at::Tensor made = Product(a, b), into = at::full({m, n}, NAN, a.options());
        ProductInto(into, a, b);
        EXPECT_LT(Off(made, Exact(a, b)), Tolerance(dtype))
            << m << " " << n << " " << k << " " << static_cast<int>(of_a) << static_cast<int>(of_b);
        EXPECT_TRUE(at::equal(made, into));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryProductTest,
                         ::testing::Combine(::testing::Values("mkl", "onednn"),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  c10::toString(std::get<1>(info.param));
                         });

TEST_F(ProductsTest, AddToSumsOfAnyLayoutAndOfAWiderDtype) {
  for (const std::string by : {"mkl", "onednn"}) {
    const ProductScope scope(Choice(by));
    for (const auto& [m, n, k] : {std::tuple{70, 40, 66}, std::tuple{300, 2100, 90}}) {
      const at::Tensor a = at::randn({m, k}), b = at::randn({n, k}).t();
      for (const Layout layout : {Layout::kRows, Layout::kColumns, Layout::kRowsOfMore}) {
        for (const auto& [beta, alpha] :
             {std::pair{1.0, 1.0}, {0.5, 1.0}, {1.0, -2.0}, {0.0, 3.0}}) {
          const at::Tensor sum = Matrix(m, n, layout, at::kFloat);
          const at::Tensor wanted = sum.to(at::kDouble).mul(beta).add(Exact(a, b), alpha);
          if (beta == 0.0) sum.fill_(NAN);  // not read
          AddProduct(sum, a, b, beta, alpha);
          EXPECT_LT(Off(sum, wanted), 1e-6) << by << " " << beta << " " << alpha;
        }
      }
      const at::Tensor wide = at::randn({m, n});
      const at::Tensor wanted =
          wide.to(at::kDouble).add(Exact(a.to(at::kBFloat16), b.to(at::kBFloat16)));
      AddProduct(wide, a.to(at::kBFloat16), b.to(at::kBFloat16));
      EXPECT_LT(Off(wide, wanted), 4e-3);
    }
  }
}

// On a CPU, an fp16 product rounds the exact sum once, to fp16 or to an fp32 sum; above 65504 it is
// infinite.
TEST_F(ProductsTest, Fp16IsRoundedOnce) {
  const int64_t kMany = 70000;  // more columns than one block
  for (const auto& [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{70, 40, 66}, {3, kMany, 66}}) {
    const at::Tensor a = at::randn({m, k}).to(at::kHalf), b = at::randn({n, k}).to(at::kHalf).t();
    for (const auto& [beta, alpha] : {std::pair{1.0, 1.0}, {0.5, -2.0}, {0.0, 3.0}}) {
      for (const at::ScalarType dtype : {at::kHalf, at::kFloat}) {
        const at::Tensor sum = at::randn({m, n}).to(dtype);
        const at::Tensor wanted = sum.to(at::kDouble).mul(beta).add(Exact(a, b), alpha);
        if (beta == 0.0) sum.fill_(NAN);  // not read
        AddProduct(sum, a, b, beta, alpha);
        EXPECT_LT(Off(sum, wanted), dtype == at::kHalf ? 5e-4 : 1e-6) << beta << " " << alpha;
      }
    }
  }
  const at::Tensor large = at::full({2, 2}, 200.0, at::kHalf);
  EXPECT_TRUE(at::equal(Product(large, large), at::full({2, 2}, INFINITY, at::kHalf)));
  at::Tensor sum = at::zeros({2, 2});
  AddProduct(sum, large, large);
  EXPECT_TRUE(at::equal(sum, at::full({2, 2}, 80000.0)));
  // 1 + 2^-11 + 2^-22 is slightly above the midpoint of two fp16 numbers; double rounding would
  // give the wrong one.
  const at::Tensor
      x = at::tensor({1.0, 1.0, std::ldexp(1.0, -11)}).to(at::kHalf).view({1, 3}),
      y = at::tensor({1.0, std::ldexp(1.0, -11), std::ldexp(1.0, -11)}).to(at::kHalf).view({3, 1});
  EXPECT_EQ(Product(x, y).item<float>(), 1.0f + std::ldexp(1.0f, -10));
  EXPECT_TRUE(at::equal(Product(at::zeros({3, 0}, at::kHalf), at::zeros({0, 4}, at::kHalf)),
                        at::zeros({3, 4}, at::kHalf)));
  EXPECT_THROW(Product(at::zeros({2, 3}, at::kHalf), at::zeros({4, 2}, at::kHalf)), c10::Error);
  EXPECT_THROW(Product(at::zeros({2, 3}, at::kHalf), at::zeros({3, 2})), c10::Error);
}

TEST_F(ProductsTest, EmptyProductsAreZero) {
  const ProductScope scope(Choice("onednn"));
  EXPECT_TRUE(at::equal(Product(at::zeros({100, 0}), at::zeros({0, 4})), at::zeros({100, 4})));
  EXPECT_EQ(Product(at::zeros({0, 3}), at::zeros({3, 4})).sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(Product(at::zeros({100, 3}), at::zeros({3, 0})).sizes(), at::IntArrayRef({100, 0}));
  EXPECT_THROW(Product(at::zeros({100, 3}), at::zeros({4, 100})), c10::Error);
  EXPECT_THROW(ProductInto(at::zeros({100, 5}), at::zeros({100, 4}), at::zeros({4, 100})),
               c10::Error);
}

// A row of a shard is bit-identical to the same row in the whole matrix.
TEST_F(ProductsTest, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  for (const std::string by : {"mkl", "onednn"}) {
    const ProductScope scope(Choice(by));
    for (const auto& [n, k] : {std::pair{576, 576}, {192, 576}, {64, 1536}, {2100, 96}}) {
      const at::Tensor x = at::randn({1300, k}), w = at::randn({n, k}), w_t = at::randn({k, n});
      for (const at::Tensor& weight : {w.t(), w_t}) {
        const at::Tensor all = Product(x, weight);
        for (const auto& [begin, count] : {std::pair{0, 64},
                                           {64, 65},
                                           {128, 96},
                                           {3, 255},
                                           {512, 256},
                                           {100, 257},
                                           {1236, 64},
                                           {300, 1000}}) {
          EXPECT_TRUE(
              at::equal(Product(x.narrow(0, begin, count), weight), all.narrow(0, begin, count)))
              << by << " rows " << begin << " + " << count << ", " << n << " x " << k;
          at::Tensor sum = at::ones({count, n}), sums = at::ones({1300, n});
          AddProduct(sum, x.narrow(0, begin, count), weight);
          AddProduct(sums, x, weight);
          EXPECT_TRUE(at::equal(sum, sums.narrow(0, begin, count))) << by << " added";
        }
      }
    }
  }
}

// A row's bits do not depend on the other rows if the inner dimension is large and split into
// blocks.
TEST_F(ProductsTest, ADeepRowsBitsDoNotDependOnTheRowsBesideIt) {
  const ProductScope scope(Choice("onednn"));
  const at::Tensor x = at::randn({700, 26000}), w = at::randn({26000, 16});
  const at::Tensor all = Product(x, w);
  for (const auto& [begin, count] : {std::pair{0, 64}, {3, 255}, {100, 257}, {300, 400}}) {
    EXPECT_TRUE(at::equal(Product(x.narrow(0, begin, count), w), all.narrow(0, begin, count)))
        << "rows " << begin << " + " << count;
  }
}

// Bits do not depend on the number of threads. With many threads and few numbers, oneDNN alone
// would split the sum.
TEST_F(ProductsTest, BitsDoNotDependOnThreads) {
  const ProductScope scope(Choice("onednn"));
  for (const auto& [t, n, k] : {std::tuple{4096, 64, 64},
                                {2048, 576, 8},
                                {1000, 192, 576},
                                std::tuple{512, 2100, 300},
                                {300, 26000, 24}}) {
    const at::Tensor x = at::randn({t, k}), w = at::randn({n, k}), dy = at::randn({t, n});
    omp_set_num_threads(1);
    const at::Tensor y = Product(x, w.t()), dx = Product(dy, w), dw = Product(dy.t(), x);
    for (const int threads : {2, 3, 8, 16}) {
      omp_set_num_threads(threads);
      EXPECT_TRUE(at::equal(Product(x, w.t()), y)) << threads;
      EXPECT_TRUE(at::equal(Product(dy, w), dx)) << threads;
      EXPECT_TRUE(at::equal(Product(dy.t(), x), dw)) << threads << " " << n << " " << k;
    }
  }
}

TEST_F(ProductsTest, TheFormDependsOnTheWeightAndNotOnTheRows) {
  if (!HasOneDnn()) {
    EXPECT_EQ(OneDnnForm(at::empty({64, 300}), at::empty({512, 300}).t()), std::nullopt);
    GTEST_SKIP() << "this processor has no AVX-512: all products are MKL's";
  }
  const at::Tensor wide = at::empty({512, 300}), narrow = at::empty({8, 300});
  for (const int64_t rows : {64, 65, 3000}) {
    const at::Tensor x = at::empty({rows, 300});
    EXPECT_EQ(OneDnnForm(x, wide.t()), ProductForm::kForward);
    EXPECT_EQ(OneDnnForm(x, narrow.t()), ProductForm::kNarrowForward);
    EXPECT_EQ(OneDnnForm(at::empty({rows, 512}), wide), ProductForm::kInputGradient);
    EXPECT_EQ(OneDnnForm(at::empty({rows, 8}), narrow), ProductForm::kNarrowInputGradient);
    EXPECT_EQ(OneDnnForm(at::empty({rows, 512}).t(), x), ProductForm::kWeightGradient);
    EXPECT_EQ(OneDnnForm(at::empty({rows, 8}).t(), x), ProductForm::kNarrowWeightGradient);
  }
  EXPECT_EQ(OneDnnForm(at::empty({63, 300}), wide.t()), std::nullopt);
  EXPECT_EQ(OneDnnForm(at::empty({63, 512}).t(), at::empty({63, 300})), std::nullopt);
  EXPECT_EQ(OneDnnForm(at::empty({64, 300}, at::kDouble), wide.t().to(at::kDouble)), std::nullopt);
  EXPECT_EQ(OneDnnForm(at::empty({64, 300}, at::kBFloat16), wide.t().to(at::kBFloat16)),
            std::nullopt);
}

// A scope selects the library by the form of the product. The bits show which library was used:
// with so many terms, their orders of sums differ.
TEST_F(ProductsTest, AScopeChoosesByForm) {
  if (!HasOneDnn()) GTEST_SKIP() << "this processor has no AVX-512: all products are MKL's";
  const at::Tensor x = at::randn({256, 1536}), w = at::randn({576, 1536}),
                   dy = at::randn({256, 576});
  const at::Tensor y = at::mm(x, w.t()), dx = at::mm(dy, w), dw = at::mm(dy.t(), x);
  EXPECT_TRUE(at::equal(Product(x, w.t()), y));
  {
    const ProductScope scope(Choice("onednn:forward+weight_gradient"));
    EXPECT_FALSE(at::equal(Product(x, w.t()), y));
    EXPECT_TRUE(at::equal(Product(dy, w), dx));
    const ProductScope inner(Choice("onednn:input_gradient"));
    EXPECT_TRUE(at::equal(Product(x, w.t()), y));
    EXPECT_FALSE(at::equal(Product(dy, w), dx));
    EXPECT_TRUE(at::equal(Product(dy.t(), x), dw));
  }
  EXPECT_EQ(CurrentProducts(), ProductChoice{});
}

TEST_F(ProductsTest, EveryFormIsTimed) {
  const std::vector<ProductTiming> timings =
      TimeProducts({.rows = 64, .outputs = 300, .inputs = 260, .narrow = 16});
  if (!HasOneDnn()) {
    EXPECT_TRUE(timings.empty());
    return;
  }
  ASSERT_EQ(timings.size(), static_cast<size_t>(kProductForms));
  for (size_t i = 0; i < timings.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(timings[i].form), i);
    EXPECT_GT(timings[i].mkl_seconds, 0.0);
    ASSERT_TRUE(timings[i].onednn_seconds.has_value());
    EXPECT_GT(*timings[i].onednn_seconds, 0.0);
  }
}

}  // namespace
}  // namespace moonring::kernels
