#include "model/blocks/gated_norm.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/testing/all_close.h"
#include "tests/testing/finite_differences.h"

namespace moonring::model {
namespace {

using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::RelativeError;

at::Tensor NormFormula(const at::Tensor& x, const at::Tensor& z, const at::Tensor& w, double eps) {
  return w * x / (x.pow(2).mean(1, true) + eps).sqrt() * z / (1 + (-z).exp());
}

constexpr NormGate kGates[] = {NormGate::kSilu, NormGate::kSigmoid};

TEST(GatedNormTest, IsItsFormula) {
  at::manual_seed(7);
  const at::Tensor x = at::randn({5, 12}, at::kDouble), z = at::randn({5, 12}, at::kDouble) * 3,
                   w = at::randn({12}, at::kDouble);
  const at::Tensor wanted = NormFormula(x, z, w, 1e-3);
  EXPECT_TRUE(RelativeError(GatedRmsNorm(x, z, w, 1e-3), wanted, 1e-14));
  EXPECT_TRUE(RelativeError(
      GatedRmsNorm(x.to(at::kFloat), z.to(at::kFloat), w.to(at::kFloat), 1e-3), wanted, 4e-7));
  // In bf16 only the inputs and the result are rounded, each by at most 2^-9.
  const at::Tensor rounded_x = x.to(at::kBFloat16), rounded_z = z.to(at::kBFloat16);
  const at::Tensor narrow = GatedRmsNorm(rounded_x, rounded_z, w.to(at::kFloat), 1e-3);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(RelativeError(
      narrow, NormFormula(rounded_x.to(at::kDouble), rounded_z.to(at::kDouble), w, 1e-3), 2e-3));
}

// The gate silu(z) gives the result of the gate sigmoid(z), times z.
TEST(GatedNormTest, BySigmoid) {
  at::manual_seed(7);
  const at::Tensor x = at::randn({5, 12}, at::kDouble), z = at::randn({5, 12}, at::kDouble) * 3,
                   w = at::randn({12}, at::kDouble);
  EXPECT_TRUE(RelativeError(GatedRmsNorm(x, z, w, 1e-3, NormGate::kSigmoid),
                            NormFormula(x, z, w, 1e-3) / z, 1e-14));
}

class GatedNormGradients : public ::testing::TestWithParam<NormGate> {};

TEST_P(GatedNormGradients, AreThoseOfDifferences) {
  at::manual_seed(8);
  std::vector<at::Tensor> inputs = {at::randn({4, 6}, at::kDouble), at::randn({4, 6}, at::kDouble),
                                    at::randn({6}, at::kDouble)};
  const at::Tensor weights = at::randn({4, 6}, at::kDouble);
  for (at::Tensor& input : inputs) input.requires_grad_();
  const auto f = [&] { return GatedRmsNorm(inputs[0], inputs[1], inputs[2], 1e-3, GetParam()); };
  const auto gradients = torch::autograd::grad({f()}, {inputs[0], inputs[1], inputs[2]}, {weights});
  const auto value = [&] { return (f() * weights).sum().item<double>(); };
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(RelativeError(gradients[i], FiniteDifferences(value, inputs[i]), kDifferenceBound))
        << "input " << i;
  // An input that alone requires a gradient gets the same gradient as when all inputs do.
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<at::Tensor> one;
    for (size_t j = 0; j < inputs.size(); ++j)
      one.push_back(inputs[j].detach().requires_grad_(i == j));
    const auto alone = torch::autograd::grad(
        {GatedRmsNorm(one[0], one[1], one[2], 1e-3, GetParam())}, {one[i]}, {weights});
    EXPECT_TRUE(at::equal(alone[0], gradients[i])) << "input " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Gates, GatedNormGradients, ::testing::ValuesIn(kGates));

at::Tensor GatedFirst(const at::Tensor& x, const at::Tensor& z, const at::Tensor& w, double eps,
                      int64_t groups) {
  const at::Tensor product = (x * z / (1 + (-z).exp())).unflatten(1, {groups, -1});
  return w * (product / (product.pow(2).mean(2, true) + eps).sqrt()).flatten(1);
}

class NormOfGatedTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(NormOfGatedTest, IsItsFormulaWithItsGradients) {
  at::manual_seed(9);
  std::vector<at::Tensor> inputs = {at::randn({4, 6}, at::kDouble), at::randn({4, 6}, at::kDouble),
                                    at::randn({6}, at::kDouble)};
  const at::Tensor weights = at::randn({4, 6}, at::kDouble);
  EXPECT_TRUE(RelativeError(NormOfGated(inputs[0], inputs[1], inputs[2], 1e-3, GetParam()),
                            GatedFirst(inputs[0], inputs[1], inputs[2], 1e-3, GetParam()), 1e-14));
  for (at::Tensor& input : inputs) input.requires_grad_();
  const auto made = torch::autograd::grad(
      {NormOfGated(inputs[0], inputs[1], inputs[2], 1e-3, GetParam())}, inputs, {weights});
  const auto wanted = torch::autograd::grad(
      {GatedFirst(inputs[0], inputs[1], inputs[2], 1e-3, GetParam())}, inputs, {weights});
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(RelativeError(made[i], wanted[i], 1e-12)) << "input " << i;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<at::Tensor> one;
    for (size_t j = 0; j < inputs.size(); ++j)
      one.push_back(inputs[j].detach().requires_grad_(i == j));
    const auto alone = torch::autograd::grad(
        {NormOfGated(one[0], one[1], one[2], 1e-3, GetParam())}, {one[i]}, {weights});
    EXPECT_TRUE(at::equal(alone[0], made[i])) << "input " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, NormOfGatedTest, ::testing::Values(1, 2, 6));

TEST(GatedNormTest, NoRowsAndShapesThatDoNotFit) {
  const at::Tensor w = at::ones({6});
  EXPECT_EQ(GatedRmsNorm(at::zeros({0, 6}), at::zeros({0, 6}), w, 1e-6).sizes(),
            at::IntArrayRef({0, 6}));
  EXPECT_THROW(GatedRmsNorm(at::zeros({2, 6}), at::zeros({3, 6}), w, 1e-6), c10::Error);
  EXPECT_THROW(GatedRmsNorm(at::zeros({2, 5}), at::zeros({2, 5}), w, 1e-6), c10::Error);
  EXPECT_EQ(NormOfGated(at::zeros({0, 6}), at::zeros({0, 6}), w, 1e-6, 2).sizes(),
            at::IntArrayRef({0, 6}));
  EXPECT_THROW(NormOfGated(at::zeros({2, 6}), at::zeros({2, 6}), w, 1e-6, 4), c10::Error);
}

}  // namespace
}  // namespace moonring::model
