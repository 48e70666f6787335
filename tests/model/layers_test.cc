#include "model/layers.h"

#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/model/finite_differences.h"
#include "tests/model/live_bytes.h"
#include "tests/testing/all_close.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::LiveBytes;
using ::moonring::testing::RelativeError;

// Two fp64 formulas of the same value, ten or so roundings each.
constexpr double kSame = 1e-14;

at::Tensor Random(at::IntArrayRef sizes, at::ScalarType dtype = at::kDouble) { return at::randn(sizes, at::kDouble).to(dtype); }

// Every gradient of a random linear functional of f(inputs) against central differences.
void CheckGradients(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f, std::vector<at::Tensor> inputs) {
  for (at::Tensor& input : inputs) input.requires_grad_();
  const at::Tensor output = f(inputs);
  const at::Tensor weights = Random(output.sizes());
  const auto gradients = torch::autograd::grad({output}, {inputs.begin(), inputs.end()}, {weights});
  const auto value = [&] { return (f(inputs) * weights).sum().item<double>(); };
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(RelativeError(gradients[i], FiniteDifferences(value, inputs[i]), kDifferenceBound)) << "input " << i;
}

class LayersTest : public ::testing::Test {
 protected:
  LayersTest() { at::manual_seed(7); }
};

TEST_F(LayersTest, RmsNormIsItsFormula) {
  const at::Tensor x = Random({5, 12}), w = Random({12});
  const at::Tensor wanted = w * x / (x.pow(2).sum(1, true) / 12 + 1e-5).sqrt();
  EXPECT_TRUE(RelativeError(RmsNorm(x, w, 1e-5, at::kDouble), wanted, kSame));
  // fp32: a mean of 12 squares and four more roundings.
  EXPECT_TRUE(RelativeError(RmsNorm(x.to(at::kFloat), w.to(at::kFloat), 1e-5, at::kFloat), wanted, 3e-7));
}

TEST_F(LayersTest, RmsNormGradients) {
  for (const double eps : {1e-6, 0.5}) {
    CheckGradients([eps](const auto& in) { return RmsNorm(in[0], in[1], eps, at::kDouble); }, {Random({4, 10}), Random({10})});
  }
}

TEST_F(LayersTest, RmsNormGradientsOfFrozenSides) {
  const at::Tensor x = Random({4, 10}).requires_grad_(), w = Random({10}).requires_grad_(), dy = Random({4, 10});
  const auto both = torch::autograd::grad({RmsNorm(x, w, 1e-5, at::kDouble)}, {x, w}, {dy});
  EXPECT_TRUE(BitEqual(torch::autograd::grad({RmsNorm(x, w.detach(), 1e-5, at::kDouble)}, {x}, {dy})[0], both[0]));
  EXPECT_TRUE(BitEqual(torch::autograd::grad({RmsNorm(x.detach(), w, 1e-5, at::kDouble)}, {w}, {dy})[0], both[1]));
}

TEST_F(LayersTest, RmsNormRoundsLast) {
  const at::Tensor x = Random({5, 12}, at::kFloat), w = Random({12}, at::kFloat);
  EXPECT_TRUE(BitEqual(RmsNorm(x, w, 1e-5, at::kBFloat16), RmsNorm(x, w, 1e-5, at::kFloat).to(at::kBFloat16)));
}

TEST_F(LayersTest, RmsNormKeepsItsInputAndOneNumberARow) {
  const at::Tensor x = Random({64, 256}, at::kFloat).requires_grad_(), w = Random({256}, at::kFloat).requires_grad_();
  LiveBytes live;
  const at::Tensor y = RmsNorm(x, w, 1e-5, at::kFloat);
  EXPECT_LE(live.now() - static_cast<int64_t>(y.nbytes()), 64 * 4 + 1024);
}

// The pair (x_f, x_{f + F}) as a complex number, turned by position * theta^(-2f/D).
TEST_F(LayersTest, RotaryIsAComplexRotation) {
  const int64_t heads = 3, width = 8;
  const double theta = 500.0;
  const at::Tensor positions = at::tensor({0, 5, 2, 2, 1000}, at::kLong), x = Random({5, heads, width});
  const at::Tensor exponent = at::arange(0, width / 2, at::kDouble) * (-2.0 / width);
  const at::Tensor angle = (positions.to(at::kDouble).unsqueeze(1) * at::pow(theta, exponent)).unsqueeze(1);
  const at::Tensor turned = at::complex(x.narrow(2, 0, width / 2), x.narrow(2, width / 2, width / 2)) * at::polar(at::ones_like(angle), angle);
  const at::Tensor wanted = at::cat({at::real(turned), at::imag(turned)}, 2);
  // An angle of 1000 carries its last bit, 1e-13, into the result.
  EXPECT_TRUE(RelativeError(ApplyRotary(x, MakeRotary(positions, width, theta, at::kDouble)), wanted, 1e-12));
  // fp32 angles: 1000 * 2^-24 of an angle, on a fifth of the rows.
  EXPECT_TRUE(RelativeError(ApplyRotary(x.to(at::kFloat), MakeRotary(positions, width, theta, at::kFloat)), wanted, 1e-4));
  EXPECT_TRUE(BitEqual(ApplyRotary(x, MakeRotary(positions, width, theta, at::kDouble))[0], x[0]));
}

TEST_F(LayersTest, RotaryGradients) {
  const Rotary rotary = MakeRotary(at::tensor({3, 0, 17}, at::kLong), 6, 100.0, at::kDouble);
  CheckGradients([&](const auto& in) { return ApplyRotary(in[0], rotary); }, {Random({3, 2, 6})});
}

TEST_F(LayersTest, RotaryComputesInItsOwnDtype) {
  const Rotary rotary = MakeRotary(at::arange(0, 9, at::kLong), 16, 1e4, at::kFloat);
  const at::Tensor x = Random({9, 2, 16}, at::kBFloat16);
  EXPECT_TRUE(BitEqual(ApplyRotary(x, rotary), ApplyRotary(x.to(at::kFloat), rotary).to(at::kBFloat16)));
}

TEST_F(LayersTest, GatedDownIsItsFormula) {
  const at::Tensor gate = Random({4, 7}), up = Random({4, 7}), w = Random({5, 7}), b = Random({5});
  const at::Tensor product = gate / (1 + (-gate).exp()) * up;
  EXPECT_TRUE(RelativeError(GatedDown(gate, up, w, {}), at::matmul(product, w.t()), kSame));
  EXPECT_TRUE(RelativeError(GatedDown(gate, up, w, b), at::matmul(product, w.t()) + b, kSame));
}

TEST_F(LayersTest, GatedDownGradients) {
  CheckGradients([](const auto& in) { return GatedDown(in[0], in[1], in[2], in[3]); }, {Random({4, 7}), Random({4, 7}), Random({5, 7}), Random({5})});
  CheckGradients([](const auto& in) { return GatedDown(in[0], in[1], in[2], {}); }, {Random({4, 7}), Random({4, 7}), Random({5, 7})});
  const at::Tensor w = Random({5, 7});
  CheckGradients([&](const auto& in) { return GatedDown(in[0], in[1], w, {}); }, {Random({4, 7}), Random({4, 7})});
}

TEST_F(LayersTest, GatedDownKeepsNothingOfItsOwn) {
  const at::Tensor gate = Random({64, 128}, at::kFloat).requires_grad_(), up = Random({64, 128}, at::kFloat).requires_grad_();
  const at::Tensor w = Random({32, 128}, at::kFloat).requires_grad_();
  LiveBytes live;
  const at::Tensor y = GatedDown(gate, up, w, {});
  EXPECT_LE(live.now() - static_cast<int64_t>(y.nbytes()), 1024);
}

TEST_F(LayersTest, LinearGradients) {
  CheckGradients([](const auto& in) { return Linear(in[0], in[1], in[2]); }, {Random({4, 7}), Random({5, 7}), Random({5})});
}

TEST_F(LayersTest, NoRows) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::ScalarType stream = StreamDtype(dtype);
    const at::Tensor x = Random({0, 8}, stream).requires_grad_(), norm = Random({8}, stream).requires_grad_();
    const at::Tensor w = Random({8, 8}, dtype).requires_grad_(), b = Random({8}, dtype).requires_grad_();
    const Rotary rotary = MakeRotary(at::empty({0}, at::kLong), 4, 1e4, stream);
    const at::Tensor y = Linear(RmsNorm(x, norm, 1e-5, dtype), w, b);
    const at::Tensor z = GatedDown(ApplyRotary(y.view({0, 2, 4}), rotary).reshape({0, 8}), y, w, b);
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
  EXPECT_THROW(MakeRotary(at::zeros({2}, at::kLong), 7, 1e4, at::kFloat), c10::Error);
  EXPECT_THROW(ApplyRotary(Random({2, 1, 8}), MakeRotary(at::zeros({3}, at::kLong), 8, 1e4, at::kDouble)), c10::Error);
  const at::Tensor x = Random({2, 8}).requires_grad_();
  const at::Tensor y = RmsNorm(x, at::ones({8}, at::kDouble), 1e-5, at::kDouble);
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {at::ones_like(y)}, std::nullopt, /*create_graph=*/true), c10::Error);
}

}  // namespace
}  // namespace moonring::model
