#include "trainer/sharding/gradients.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "comm/process_groups.h"
#include "tests/testing/run_ranks.h"

namespace moonring::trainer {
namespace {

using base::Parameter;
using base::Parameters;

// Returns a gradient of whole numbers, so that every sum is exact in any order.
at::Tensor GradientOf(int64_t parameter, int rank, int64_t numel, at::ScalarType dtype) {
  return (at::arange(numel, at::kDouble) * (parameter + 1) + rank * 1000).to(dtype);
}

// Sizes that fill a bucket exactly, cross its boundary, fill several, or are 0; the dtypes change
// from one to the next.
TEST(SumGradientsTest, EverySizeOnEveryGroup) {
  const std::vector<int64_t> sizes = {3, 16, 1, 0, 15, 17, 40, 64, 5};
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t bucket_bytes : {1, 4, 64, 100, 1 << 20}) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, buckets of " << bucket_bytes);
      moonring::testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
        Parameters parameters;
        for (size_t i = 0; i < sizes.size(); ++i) {
          const at::ScalarType dtype = i % 4 == 2   ? at::kDouble
                                       : i % 4 == 3 ? at::kBFloat16
                                                    : at::kFloat;
          parameters.push_back(
              std::make_shared<Parameter>("p" + std::to_string(i), at::zeros({sizes[i]}, dtype)));
          parameters[i]->AddGradient(GradientOf(
              static_cast<int64_t>(i), world->communicator()->rank(), sizes[i], at::kDouble));
        }
        const absl::Status status =
            SumGradients(parameters, *world->communicator(), {.bucket_bytes = bucket_bytes});
        ASSERT_TRUE(status.ok()) << status;
        for (size_t i = 0; i < sizes.size(); ++i) {
          at::Tensor wanted = at::zeros({sizes[i]}, at::kDouble);
          for (int rank = 0; rank < ranks; ++rank)
            wanted += GradientOf(static_cast<int64_t>(i), rank, sizes[i], at::kDouble);
          EXPECT_TRUE(at::equal(parameters[i]->gradient().to(at::kDouble), wanted))
              << "parameter " << i;
        }
      });
    }
  }
}

// If only one rank has a gradient, all ranks get it; if none has, it stays absent; a frozen
// parameter is ignored.
TEST(SumGradientsTest, AbsentGradients) {
  moonring::testing::RunRanks(3, [](std::shared_ptr<comm::World> world) {
    auto everywhere = std::make_shared<Parameter>("a", at::zeros({2, 3})),
         once = std::make_shared<Parameter>("b", at::zeros({4})),
         never = std::make_shared<Parameter>("c", at::zeros({5})),
         frozen = std::make_shared<Parameter>("d", at::zeros({6}), false);
    everywhere->AddGradient(at::ones({2, 3}));
    if (world->communicator()->rank() == 1) once->AddGradient(at::full({4}, 7.0));
    ASSERT_TRUE(SumGradients({everywhere, once, never, frozen}, *world->communicator()).ok());
    EXPECT_TRUE(everywhere->gradient().eq(3).all().item<bool>());
    EXPECT_TRUE(once->gradient().eq(7).all().item<bool>());
    EXPECT_FALSE(never->gradient().defined());
    EXPECT_FALSE(frozen->gradient().defined());
  });
}

TEST(SumGradientsTest, ABucketIsOneCall) {
  moonring::testing::RunRanks(2, [](std::shared_ptr<comm::World> world) {
    Parameters parameters;
    for (int i = 0; i < 10; ++i) {
      parameters.push_back(std::make_shared<Parameter>("p" + std::to_string(i), at::zeros({100})));
      parameters.back()->AddGradient(at::ones({100}));
    }
    const auto before = world->communicator()->counters();
    ASSERT_TRUE(SumGradients(parameters, *world->communicator(), {.bucket_bytes = 1000})
                    .ok());  // 250 numbers each
    // On two ranks an all-reduce takes 2 steps and sends the rank's own bytes once. There are five:
    // one that finds out which ranks have gradients, and four buckets.
    EXPECT_EQ(world->communicator()->counters().steps - before.steps, 2 * 5);
    EXPECT_EQ(world->communicator()->counters().bytes_sent - before.bytes_sent, 10 * 8 + 1000 * 4);
  });
}

Parameters WithGradients(const std::vector<at::Tensor>& gradients) {
  Parameters parameters;
  for (const at::Tensor& gradient : gradients) {
    parameters.push_back(std::make_shared<Parameter>("p" + std::to_string(parameters.size()),
                                                     at::zeros_like(gradient)));
    parameters.back()->AddGradient(gradient);
  }
  return parameters;
}

TEST(GlobalNormTest, ClosedForms) {
  EXPECT_EQ(GlobalNorm({}), 0.0);
  EXPECT_EQ(GlobalNorm(WithGradients({at::full({2, 2}, 1.0, at::kDouble), at::full({12}, -1.0)})),
            4.0);
  // fp32 numbers whose squares are above or below the range of fp32.
  EXPECT_DOUBLE_EQ(GlobalNorm(WithGradients({at::full({4}, 1e30)})),
                   2.0 * static_cast<double>(1e30f));
  EXPECT_DOUBLE_EQ(GlobalNorm(WithGradients({at::full({4}, 1e-30)})),
                   2.0 * static_cast<double>(1e-30f));
  // 3 million elements: an fp32 sum of squares would lose the 1e-4s after the large one.
  EXPECT_NEAR(GlobalNorm(WithGradients({at::full({1}, 1000.0), at::full({3000000}, 0.01)})),
              std::sqrt(1e6 + 3e6 * std::pow(static_cast<double>(0.01f), 2)), 1e-9);
}

TEST(GlobalNormTest, ThreadsMoveNoBit) {
  const Parameters parameters = WithGradients({at::randn({1000003}), at::randn({777})});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = GlobalNorm(parameters);
  at::set_num_threads(4);
  EXPECT_EQ(GlobalNorm(parameters), alone);
  at::set_num_threads(threads);
}

// Tensors that the host does not read directly (GPU tensors; here, tensors that are not contiguous)
// use LibTorch's operators on lists. The norm equals that of contiguous tensors, up to the order of
// fp64 additions.
TEST(GlobalNormTest, OfListsAsOfPlainNumbers) {
  std::vector<at::Tensor> numbers;
  for (const int64_t rows : {1, 3, 64, 300}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
      numbers.push_back(at::randn({rows, 129}, dtype));
  }
  const Parameters plain = WithGradients(numbers);
  Parameters turned = WithGradients(numbers);
  turned.push_back(std::make_shared<Parameter>("frozen", at::zeros({3}), false));
  turned.insert(turned.begin() + 2, std::make_shared<Parameter>("none", at::zeros({3})));
  for (const auto& parameter : turned) {
    if (parameter->gradient().defined())
      parameter->mutable_gradient() = parameter->gradient().t().contiguous().t();
  }
  turned[0]->mutable_gradient() = numbers[0];  // one of the plain ones among them
  const double wanted = GlobalNorm(plain);
  EXPECT_NEAR(GlobalNorm(turned), wanted, 1e-13 * wanted);
  const std::vector<double> of_each = SumsOfSquares(plain), of_turned = SumsOfSquares(turned);
  ASSERT_EQ(of_turned.size(), of_each.size() + 2);
  EXPECT_EQ(of_turned[2], 0.0);
  EXPECT_EQ(of_turned.back(), 0.0);
  for (size_t i = 0; i < of_each.size(); ++i) {
    SCOPED_TRACE(i);
    const double exact = numbers[i].to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(of_each[i], exact, 1e-13 * exact);
    EXPECT_NEAR(of_turned[i < 2 ? i : i + 1], exact, 1e-13 * exact);
  }
  turned[4]->mutable_gradient()[0][1] = std::nan("");
  EXPECT_EQ(NonFiniteGradients(turned), std::vector<std::string>{turned[4]->name()});
  EXPECT_TRUE(std::isnan(GlobalNorm(turned)));
}

TEST(ClipByNormTest, AsTorch) {
  Parameters parameters =
      WithGradients({at::full({9}, 2.0, at::kDouble), at::full({16}, 0.0, at::kDouble)});
  const double norm = GlobalNorm(parameters);
  EXPECT_EQ(norm, 6.0);
  EXPECT_EQ(ClipByNorm(parameters, norm, 0.0), 1.0);
  EXPECT_EQ(ClipByNorm(parameters, norm, 6.5), 1.0);
  EXPECT_EQ(parameters[0]->gradient()[0].item<double>(), 2.0);
  const double factor = ClipByNorm(parameters, norm, 1.5);
  EXPECT_EQ(factor, 1.5 / (6.0 + 1e-6));
  EXPECT_EQ(parameters[0]->gradient()[0].item<double>(), 2.0 * factor);
  EXPECT_THROW(ClipByNorm(parameters, std::nan(""), 1.0), c10::Error);
  EXPECT_THROW(ClipByNorm(parameters, 1.0, -1.0), c10::Error);
}

// Gradients of a scaled loss, after division by the loss scale, are bit-identical to those of the
// loss itself, clipped or not.
TEST(ClipByNormTest, DividesByTheLossScale) {
  at::manual_seed(5);
  const at::Tensor gradient = at::randn({257}) * 1e-3;
  for (const double scale : {65536.0, 0.25, 1.0}) {
    for (const double max_norm : {0.0, 1e9, 1e-4}) {
      Parameters plain = WithGradients({gradient.clone()}),
                 scaled = WithGradients({gradient * scale});
      const double norm = GlobalNorm(plain);
      EXPECT_EQ(GlobalNorm(scaled) / scale, norm);
      EXPECT_EQ(ClipByNorm(scaled, norm, max_norm, scale), ClipByNorm(plain, norm, max_norm));
      EXPECT_TRUE(at::equal(scaled[0]->gradient(), plain[0]->gradient()));
    }
  }
  Parameters one = WithGradients({at::ones({3})});
  for (const double scale : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_THROW(ClipByNorm(one, 1.0, 1.0, scale), c10::Error) << scale;
}

TEST(NonFiniteTest, NamesThem) {
  Parameters parameters = WithGradients(
      {at::ones({3}), at::ones({3}), at::full({3}, 1e300, at::kDouble), at::ones({2})});
  EXPECT_TRUE(NonFiniteGradients(parameters)
                  .empty());  // 1e300 squared overflows, and is finite all the same
  parameters[1]->mutable_gradient()[2] = std::nan("");
  parameters[3]->mutable_gradient()[0] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(NonFiniteGradients(parameters), (std::vector<std::string>{"p1", "p3"}));
  EXPECT_FALSE(std::isfinite(GlobalNorm(parameters)));
}

}  // namespace
}  // namespace moonring::trainer
