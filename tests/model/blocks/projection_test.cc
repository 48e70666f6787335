#include "model/blocks/projection.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/random/counter_random.h"
#include "model/blocks/layers.h"
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

constexpr int64_t kRows = 9, kIn = 12, kOut = 7, kRank = 3;
constexpr double kScale = 1.7, kRate = 0.4;
constexpr uint64_t kDropoutKey = 99;

struct Case {
  bool dora, dropout, bias;
};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  return std::string(info.param.dora ? "Dora" : "Lora") + (info.param.dropout ? "Dropout" : "") +
         (info.param.bias ? "Bias" : "");
}

class ProjectionTest : public ::testing::TestWithParam<Case> {
 protected:
  ProjectionTest() {
    at::manual_seed(4);
    const auto random = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); };
    map_.weight_OI = random({kOut, kIn});
    if (GetParam().bias) map_.bias_O = random({kOut});
    LowRank& low = map_.low_rank.emplace();
    low.a_RI = random({kRank, kIn}).requires_grad_();
    low.b_OR = random({kOut, kRank}).requires_grad_();
    if (GetParam().dora) low.magnitude_O = (random({kOut}).abs() + 1).requires_grad_();
    low.scale = kScale;
    if (GetParam().dropout) low.dropout = {kRate, kDropoutKey, at::arange(kRows, at::kLong) * 77};
    gradient_ = random({kRows, kOut});
  }

  Projection In(at::ScalarType dtype) const {
    const auto to = [&](const at::Tensor& tensor, at::ScalarType type) {
      return tensor.defined() ? tensor.detach()
                                    .to(type, false, /*copy=*/true)
                                    .requires_grad_(tensor.requires_grad())
                              : tensor;
    };
    Projection map{to(map_.weight_OI, dtype), to(map_.bias_O, dtype), map_.low_rank};
    map.low_rank->a_RI = to(map_.low_rank->a_RI, dtype);
    map.low_rank->b_OR = to(map_.low_rank->b_OR, dtype);
    map.low_rank->magnitude_O = to(map_.low_rank->magnitude_O, WideDtype(dtype));
    return map;
  }

  // Computes the projection from the header's equations, with plain autograd.
  at::Tensor ByItsEquations(const at::Tensor& x) const {
    const LowRank& low = *map_.low_rank;
    at::Tensor dropped = x;
    if (GetParam().dropout)
      dropped = x *
                kernels::CounterUniform(kDropoutKey, low.dropout.identity_T, kIn)
                    .ge(kRate)
                    .to(at::kDouble) /
                (1 - kRate);
    at::Tensor y = x.matmul(map_.weight_OI.t());
    const at::Tensor low_rank = kScale * dropped.matmul(low.a_RI.t()).matmul(low.b_OR.t());
    if (GetParam().dora) {
      const at::Tensor norm =
          (map_.weight_OI + kScale * low.b_OR.matmul(low.a_RI)).detach().pow(2).sum(1).sqrt();
      const at::Tensor gain = low.magnitude_O / norm, base = dropped.matmul(map_.weight_OI.t());
      y = y + (gain - 1) * base + gain * low_rank;
    } else {
      y = y + low_rank;
    }
    return map_.bias_O.defined() ? y + map_.bias_O : y;
  }

  std::vector<at::Tensor> Leaves(const Projection& map, std::vector<at::Tensor> inputs) const {
    inputs.push_back(map.low_rank->a_RI);
    inputs.push_back(map.low_rank->b_OR);
    if (GetParam().dora) inputs.push_back(map.low_rank->magnitude_O);
    return inputs;
  }

  Projection map_;
  at::Tensor gradient_;
};

TEST_P(ProjectionTest, IsItsEquations) {
  const at::Tensor x = at::randn({kRows, kIn}, at::kDouble).requires_grad_();
  const at::Tensor y = Project(map_, x), wanted = ByItsEquations(x);
  EXPECT_TRUE(RelativeError(y, wanted, 1e-14));
  const auto ours = torch::autograd::grad({y}, Leaves(map_, {x}), {gradient_}),
             theirs = torch::autograd::grad({wanted}, Leaves(map_, {x}), {gradient_});
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(RelativeError(ours[i], theirs[i], 1e-13)) << i;
}

TEST_P(ProjectionTest, GatedIsItsEquations) {
  const at::Tensor gate = at::randn({kRows, kIn}, at::kDouble).requires_grad_(),
                   up = at::randn({kRows, kIn}, at::kDouble).requires_grad_();
  const at::Tensor y = ProjectGated(map_, gate, up, Activation::kSilu),
                   wanted = ByItsEquations(gate * gate.sigmoid() * up);
  EXPECT_TRUE(RelativeError(y, wanted, 1e-14));
  const std::vector<at::Tensor> leaves = Leaves(map_, {gate, up});
  const auto ours = torch::autograd::grad({y}, leaves, {gradient_}),
             theirs = torch::autograd::grad({wanted}, leaves, {gradient_});
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(RelativeError(ours[i], theirs[i], 1e-13)) << i;
}

TEST_P(ProjectionTest, WithoutAGateItIsItsEquations) {
  const at::Tensor gate = at::randn({kRows, kIn}, at::kDouble).requires_grad_();
  const at::Tensor y = ProjectGated(map_, gate, {}, Activation::kReluSquared),
                   wanted = ByItsEquations(gate.clamp_min(0).pow(2));
  EXPECT_TRUE(RelativeError(y, wanted, 1e-14));
  const std::vector<at::Tensor> leaves = Leaves(map_, {gate});
  const auto ours = torch::autograd::grad({y}, leaves, {gradient_}),
             theirs = torch::autograd::grad({wanted}, leaves, {gradient_});
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(RelativeError(ours[i], theirs[i], 1e-13)) << i;
}

// Gradients equal finite differences, except those of DoRA's A and B, which are not the true
// derivative: the norm counts as a constant in the backward.
TEST_P(ProjectionTest, FiniteDifferences) {
  const at::Tensor x = at::randn({kRows, kIn}, at::kDouble).requires_grad_();
  const auto loss = [&] { return (Project(map_, x) * gradient_).sum().item<double>(); };
  std::vector<at::Tensor> leaves = {x};
  if (GetParam().dora) {
    leaves.push_back(map_.low_rank->magnitude_O);
  } else {
    leaves = Leaves(map_, {x});
  }
  const auto gradients = torch::autograd::grad({Project(map_, x)}, leaves, {gradient_});
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(RelativeError(gradients[i], FiniteDifferences(loss, leaves[i]), kDifferenceBound))
        << i;
}

// Bounds: a few roundings, of 6e-8 in fp32 and 4e-3 in bf16.
TEST_P(ProjectionTest, NarrowDtypes) {
  const at::Tensor x = at::randn({kRows, kIn}, at::kDouble).requires_grad_();
  const at::Tensor exact = Project(map_, x);
  const auto wanted = torch::autograd::grad({exact}, Leaves(map_, {x}), {gradient_});
  struct Precision {
    at::ScalarType dtype;
    double bound;
  };
  for (const Precision& p : {Precision{at::kFloat, 2e-6}, Precision{at::kBFloat16, 3e-2}}) {
    const Projection map = In(p.dtype);
    const at::Tensor narrow = x.detach().to(p.dtype).requires_grad_(), y = Project(map, narrow);
    EXPECT_EQ(y.scalar_type(), p.dtype);
    EXPECT_TRUE(RelativeError(y, exact, p.bound));
    const auto gradients =
        torch::autograd::grad({y}, Leaves(map, {narrow}), {gradient_.to(p.dtype)});
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(RelativeError(gradients[i], wanted[i], p.bound)) << i;
  }
}

TEST_P(ProjectionTest, NoRows) {
  Projection map = map_;
  if (GetParam().dropout) map.low_rank->dropout.identity_T = at::empty({0}, at::kLong);
  const at::Tensor x = at::empty({0, kIn}, at::kDouble).requires_grad_();
  const at::Tensor y = Project(map, x) + ProjectGated(map, x, x, Activation::kSilu);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, kOut}));
  for (const at::Tensor& gradient : torch::autograd::grad({y.sum()}, Leaves(map, {x})))
    EXPECT_EQ(gradient.abs().sum().item<double>(), 0.0);
}

TEST_P(ProjectionTest, AFrozenAdapterTakesNoGradient) {
  Projection map = map_;
  map.low_rank->a_RI = map.low_rank->a_RI.detach();
  map.low_rank->b_OR = map.low_rank->b_OR.detach();
  if (GetParam().dora) map.low_rank->magnitude_O = map.low_rank->magnitude_O.detach();
  const at::Tensor x = at::randn({kRows, kIn}, at::kDouble);
  EXPECT_FALSE(Project(map, x).requires_grad());
  EXPECT_TRUE(BitEqual(Project(map, x), Project(map_, x)));
  const at::Tensor leaf = x.clone().requires_grad_();
  EXPECT_TRUE(BitEqual(torch::autograd::grad({Project(map, leaf)}, {leaf}, {gradient_})[0],
                       torch::autograd::grad({Project(map_, leaf)}, {leaf}, {gradient_})[0]));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ProjectionTest,
                         ::testing::Values(Case{false, false, false}, Case{false, true, true},
                                           Case{true, false, false}, Case{true, false, true},
                                           Case{true, true, false}, Case{true, true, true}),
                         NameOf);

// For the backward, a LoRA map only saves u = A x in addition to y, and the gated map does not save
// its product. The backward creates dx and no tensor of the weight's size [O, I].
TEST(ProjectionMemoryTest, NoFullWeightGradientAndNoProduct) {
  const int64_t rows = 64, in = 1024, out = 1024, rank = 4;
  Projection map{at::randn({out, in}), at::Tensor(),
                 LowRank{at::randn({rank, in}).requires_grad_(),
                         at::randn({out, rank}).requires_grad_(),
                         {},
                         1.0,
                         {}}};
  const at::Tensor gate = at::randn({rows, in}).requires_grad_(),
                   up = at::randn({rows, in}).requires_grad_();
  const int64_t row_bytes = rows * in * 4;
  LiveBytes live;
  const at::Tensor y = ProjectGated(map, gate, up, Activation::kSilu);
  EXPECT_LE(live.now(), row_bytes + rows * rank * 4 + 256);
  const auto gradients =
      torch::autograd::grad({y.sum()}, {gate, up, map.low_rank->a_RI, map.low_rank->b_OR});
  EXPECT_LT(live.peak(),
            9 * row_bytes);  // 256 KiB each; a weight's gradient alone would be 4 MiB
}

TEST(ProjectionErrorTest, Refuses) {
  Projection map{at::randn({4, 6}), at::Tensor(),
                 LowRank{at::randn({2, 6}), at::randn({4, 2}), {}, 1.0, {}}};
  const at::Tensor x = at::randn({3, 6});
  EXPECT_NO_THROW(Project(map, x));
  Projection learning = map;
  learning.weight_OI = map.weight_OI.clone().requires_grad_();
  EXPECT_THROW(Project(learning, x), c10::Error);
  Projection misshapen = map;
  misshapen.low_rank->a_RI = at::randn({2, 5});
  EXPECT_THROW(Project(misshapen, x), c10::Error);
  Projection dropping = map;
  dropping.low_rank->dropout = {0.5, 1, at::arange(2, at::kLong)};
  EXPECT_THROW(Project(dropping, x), c10::Error);
  dropping.low_rank->dropout.rate = 1.0;
  EXPECT_THROW(Project(dropping, x), c10::Error);
}

}  // namespace
}  // namespace moonring::model
