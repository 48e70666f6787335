#include "model/blocks/layers.h"

#include <cmath>
#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/testing/all_close.h"
#include "tests/testing/finite_differences.h"
#include "tests/testing/live_bytes.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::LiveBytes;
using ::moonring::testing::RelativeError;

// Bound for two fp64 formulas of the same value, with about ten roundings each.
constexpr double kSameFormula = 1e-14;

at::Tensor Random(at::IntArrayRef sizes, at::ScalarType dtype = at::kDouble) {
  return at::randn(sizes, at::kDouble).to(dtype);
}

// Compares every gradient of a random linear functional of f(inputs) with central differences.
void CheckGradients(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f,
                    std::vector<at::Tensor> inputs) {
  for (at::Tensor& input : inputs) input.requires_grad_();
  const at::Tensor output = f(inputs);
  const at::Tensor weights = Random(output.sizes());
  const auto gradients = torch::autograd::grad({output}, {inputs.begin(), inputs.end()}, {weights});
  const auto value = [&] { return (f(inputs) * weights).sum().item<double>(); };
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(RelativeError(gradients[i], FiniteDifferences(value, inputs[i]), kDifferenceBound))
        << "input " << i;
}

class LayersTest : public ::testing::Test {
 protected:
  LayersTest() { at::manual_seed(7); }
};

TEST_F(LayersTest, RmsNormIsItsFormula) {
  const at::Tensor x = Random({5, 12}), w = Random({12});
  const at::Tensor wanted = w * x / (x.pow(2).sum(1, true) / 12 + 1e-5).sqrt();
  EXPECT_TRUE(RelativeError(RmsNorm(x, w, 1e-5, at::kDouble), wanted, kSameFormula));
  // Bound for fp32: a mean of 12 squares and four more roundings.
  EXPECT_TRUE(
      RelativeError(RmsNorm(x.to(at::kFloat), w.to(at::kFloat), 1e-5, at::kFloat), wanted, 3e-7));
}

TEST_F(LayersTest, RmsNormGradients) {
  for (const double eps : {1e-6, 0.5}) {
    CheckGradients([eps](const auto& in) { return RmsNorm(in[0], in[1], eps, at::kDouble); },
                   {Random({4, 10}), Random({10})});
  }
}

TEST_F(LayersTest, RmsNormGradientsOfFrozenSides) {
  const at::Tensor x = Random({4, 10}).requires_grad_(), w = Random({10}).requires_grad_(),
                   dy = Random({4, 10});
  const auto both = torch::autograd::grad({RmsNorm(x, w, 1e-5, at::kDouble)}, {x, w}, {dy});
  EXPECT_TRUE(BitEqual(
      torch::autograd::grad({RmsNorm(x, w.detach(), 1e-5, at::kDouble)}, {x}, {dy})[0], both[0]));
  EXPECT_TRUE(BitEqual(
      torch::autograd::grad({RmsNorm(x.detach(), w, 1e-5, at::kDouble)}, {w}, {dy})[0], both[1]));
}

TEST_F(LayersTest, RmsNormRoundsLast) {
  const at::Tensor x = Random({5, 12}, at::kFloat), w = Random({12}, at::kFloat);
  EXPECT_TRUE(BitEqual(RmsNorm(x, w, 1e-5, at::kBFloat16),
                       RmsNorm(x, w, 1e-5, at::kFloat).to(at::kBFloat16)));
}

TEST_F(LayersTest, RmsNormKeepsItsInputAndOneNumberARow) {
  const at::Tensor x = Random({64, 256}, at::kFloat).requires_grad_(),
                   w = Random({256}, at::kFloat).requires_grad_();
  LiveBytes live;
  const at::Tensor y = RmsNorm(x, w, 1e-5, at::kFloat);
  EXPECT_LE(live.now() - static_cast<int64_t>(y.nbytes()), 64 * 4 + 1024);
}

// Computes an activation by its formula in plain doubles, with erf and tanh of the standard
// library.
double ByItsFormula(double x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kReluSquared:
      return x > 0 ? x * x : 0.0;
  }
  return 0.0;
}

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                                       Activation::kReluSquared};

TEST_F(LayersTest, ActivationsAreTheirFormulas) {
  const at::Tensor x =
      at::cat({Random({200}), at::tensor({-30.0, -5.0, 0.0, 5.0, 30.0}, at::kDouble)});
  for (const Activation activation : kActivations) {
    at::Tensor wanted = at::empty_like(x);
    for (int64_t i = 0; i < x.numel(); ++i)
      wanted[i] = ByItsFormula(x[i].item<double>(), activation);
    EXPECT_TRUE(RelativeError(Activate(x, activation), wanted, kSameFormula));
    EXPECT_TRUE(RelativeError(Activate(x.to(at::kFloat), activation), wanted, 3e-7));
    // A squared ReLU has no second derivative at 0, so 0 is excluded.
    const at::Tensor smooth = x.masked_select(x.ne(0.0)), leaf = smooth.clone().requires_grad_(),
                     dy = Random({204});
    const auto gradient = [&] { return (Activate(leaf, activation) * dy).sum().item<double>(); };
    EXPECT_TRUE(RelativeError(ActivateBackward(dy, smooth, activation),
                              FiniteDifferences(gradient, leaf), kDifferenceBound));
  }
}

TEST_F(LayersTest, GatedDownIsItsFormula) {
  const at::Tensor gate = Random({4, 7}), up = Random({4, 7}), w = Random({5, 7}), b = Random({5});
  for (const Activation activation : kActivations) {
    const at::Tensor product = Activate(gate, activation) * up;
    EXPECT_TRUE(RelativeError(GatedDown(gate, up, w, {}, activation), at::matmul(product, w.t()),
                              kSameFormula));
    EXPECT_TRUE(RelativeError(GatedDown(gate, up, w, b, activation), at::matmul(product, w.t()) + b,
                              kSameFormula));
    EXPECT_TRUE(RelativeError(GatedDown(gate, {}, w, b, activation),
                              at::matmul(Activate(gate, activation), w.t()) + b, kSameFormula));
  }
}

TEST_F(LayersTest, GatedDownGradients) {
  for (const Activation activation : kActivations) {
    CheckGradients(
        [=](const auto& in) { return GatedDown(in[0], in[1], in[2], in[3], activation); },
        {Random({4, 7}), Random({4, 7}), Random({5, 7}), Random({5})});
    CheckGradients([=](const auto& in) { return GatedDown(in[0], in[1], in[2], {}, activation); },
                   {Random({4, 7}), Random({4, 7}), Random({5, 7})});
    const at::Tensor w = Random({5, 7});
    CheckGradients([&](const auto& in) { return GatedDown(in[0], in[1], w, {}, activation); },
                   {Random({4, 7}), Random({4, 7})});
    CheckGradients([=](const auto& in) { return GatedDown(in[0], {}, in[1], in[2], activation); },
                   {Random({4, 7}), Random({5, 7}), Random({5})});
  }
}

TEST_F(LayersTest, GatedDownKeepsNothingOfItsOwn) {
  const at::Tensor gate = Random({64, 128}, at::kFloat).requires_grad_(),
                   up = Random({64, 128}, at::kFloat).requires_grad_();
  const at::Tensor w = Random({32, 128}, at::kFloat).requires_grad_();
  LiveBytes live;
  const at::Tensor y = GatedDown(gate, up, w, {}, Activation::kSilu);
  EXPECT_LE(live.now() - static_cast<int64_t>(y.nbytes()), 1024);
}

TEST_F(LayersTest, LinearGradients) {
  CheckGradients([](const auto& in) { return Linear(in[0], in[1], in[2]); },
                 {Random({4, 7}), Random({5, 7}), Random({5})});
}

TEST_F(LayersTest, NoRows) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::ScalarType stream = WideDtype(dtype);
    const at::Tensor x = Random({0, 8}, stream).requires_grad_(),
                     norm = Random({8}, stream).requires_grad_();
    const at::Tensor w = Random({8, 8}, dtype).requires_grad_(),
                     b = Random({8}, dtype).requires_grad_();
    const at::Tensor y = Linear(RmsNorm(x, norm, 1e-5, dtype), w, b);
    const at::Tensor z = GatedDown(y, y, w, b, Activation::kSilu);
    const auto gradients = torch::autograd::grad({z}, {x, norm, w, b}, {at::empty_like(z)});
    EXPECT_EQ(z.sizes(), at::IntArrayRef({0, 8}));
    EXPECT_EQ(gradients[0].sizes(), x.sizes());
    for (int i = 1; i < 4; ++i) EXPECT_EQ(gradients[i].abs().sum().item<double>(), 0.0) << i;
    EXPECT_EQ(gradients[2].sizes(), w.sizes());
  }
}

TEST_F(LayersTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(RmsNorm(Random({2, 8}), Random({7}), 1e-5, at::kDouble), c10::Error);
  EXPECT_THROW(RmsNorm(Random({2, 8}), Random({8}, at::kFloat), 1e-5, at::kDouble), c10::Error);
  const at::Tensor x = Random({2, 8}).requires_grad_();
  const at::Tensor y = RmsNorm(x, at::ones({8}, at::kDouble), 1e-5, at::kDouble);
  EXPECT_THROW(
      torch::autograd::grad({y}, {x}, {at::ones_like(y)}, std::nullopt, /*create_graph=*/true),
      c10::Error);
}

// If a layer gets a WeightSum, it adds its weight's gradient to the sum and passes none to
// autograd; all other gradients are unchanged. Two backwards add up to twice the gradient.
TEST_F(LayersTest, SumsTakeWeightsGradients) {
  const at::Tensor x = Random({20, 6}).requires_grad_(), norm = Random({6}).requires_grad_(),
                   w = Random({5, 6}).requires_grad_(), v = Random({7, 6}).requires_grad_(),
                   bias = Random({5}).requires_grad_(), down = Random({6, 20}).requires_grad_();
  // In each layer, the first of the gradients is that of the weight.
  const std::vector<std::function<at::Tensor(const std::vector<WeightSum>&)>> layers = {
      [&](const auto& sums) { return Linear(x, w, bias, sums[0]); },
      [&](const auto& sums) {
        return at::cat(NormedLinear(x, norm, 1e-5, {w, v}, {bias, at::Tensor()}, sums), 1);
      },
      [&](const auto& sums) {
        return GatedDown(x.t(), x.t() * 2, down, at::Tensor(), Activation::kSilu, sums[0]);
      }};
  const std::vector<std::vector<at::Tensor>> leaves = {
      {w, x, bias}, {w, v, x, norm, bias}, {down, x}};
  const std::vector<size_t> weights = {1, 2, 1};
  for (size_t i = 0; i < layers.size(); ++i) {
    const at::Tensor plain = layers[i]({nullptr, nullptr}), dy = Random(plain.sizes());
    const auto wanted = torch::autograd::grad({plain}, leaves[i], {dy});
    const std::vector<WeightSum> sums = {std::make_shared<kernels::GradientSum>(at::kDouble),
                                         std::make_shared<kernels::GradientSum>(at::kDouble)};
    for (int times = 0; times < 2; ++times) {
      const auto rest = torch::autograd::grad({layers[i](sums)}, leaves[i], {dy}, std::nullopt,
                                              /*create_graph=*/false, /*allow_unused=*/true);
      for (size_t j = 0; j < rest.size(); ++j) {
        EXPECT_EQ(rest[j].defined(), j >= weights[i]);
        if (rest[j].defined()) {
          EXPECT_TRUE(BitEqual(rest[j], wanted[j]));
        }
      }
    }
    for (size_t j = 0; j < weights[i]; ++j)
      EXPECT_TRUE(RelativeError(sums[j]->Take(), wanted[j] * 2, 1e-12)) << i << ", " << j;
  }
}

// The norm of bf16 rows is computed in fp32: the result equals that of a cast before the norm, and
// the gradient is rounded to bf16.
TEST_F(LayersTest, NormsOfABf16Stream) {
  const at::Tensor x = Random({9, 16}, at::kBFloat16).requires_grad_(),
                   wide = x.detach().to(at::kFloat).requires_grad_(),
                   norm = Random({16}, at::kFloat).requires_grad_(),
                   w = Random({5, 16}, at::kBFloat16).requires_grad_();
  const auto compare = [&](const std::function<at::Tensor(const at::Tensor&)>& f) {
    const at::Tensor y = f(x), same = f(wide), dy = Random(y.sizes()).to(y.scalar_type());
    EXPECT_TRUE(BitEqual(y, same));
    const auto got = torch::autograd::grad({y}, {x, norm}, {dy}),
               wanted = torch::autograd::grad({same}, {wide, norm}, {dy});
    EXPECT_EQ(got[0].scalar_type(), at::kBFloat16);
    EXPECT_TRUE(BitEqual(got[0], wanted[0].to(at::kBFloat16)));
    EXPECT_TRUE(BitEqual(got[1], wanted[1]));
  };
  compare([&](const at::Tensor& rows) { return RmsNorm(rows, norm, 1e-5, at::kBFloat16); });
  compare([&](const at::Tensor& rows) { return RmsNorm(rows, norm, 1e-5, at::kFloat); });
  compare([&](const at::Tensor& rows) {
    return NormedLinear(rows, norm, 1e-5, {w}, {at::Tensor()})[0];
  });
}

}  // namespace
}  // namespace moonring::model
