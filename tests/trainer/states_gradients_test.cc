// Gradients that a script takes, combines and sets: two losses' gradients are taken apart under
// each stage of ZeRO, and the combined gradient is what norm, clipping and optimizer use. Expected
// values are closed forms of the whole gradients.

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/ATen.h>

#include "base/autograd/parameter.h"
#include "comm/mesh.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"
#include "trainer/optimizer/sgd.h"
#include "trainer/sharding/states.h"
#include "trainer/sharding/zero.h"

namespace moonring::trainer {
namespace {

using ::moonring::testing::RelativeError;
using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int kOfRanks = 4;

// The gradient that a rank's loss gives a weight; `number` is that of weight and loss.
at::Tensor RankGradient(at::IntArrayRef shape, int number, int rank) {
  const at::Tensor count = at::arange(c10::multiply_integers(shape), at::kDouble).view(shape);
  return (count * 0.3 + number + 0.5 * rank).sin();
}

at::Tensor WholeGradientOf(at::IntArrayRef shape, int number) {
  at::Tensor sum = at::zeros(shape, at::kDouble);
  for (int rank = 0; rank < kOfRanks; ++rank) sum += RankGradient(shape, number, rank);
  return sum;
}

base::Parameters ThreeWeights(at::ScalarType dtype) {
  const auto make = [&](const char* name, at::IntArrayRef shape) {
    return std::make_shared<base::Parameter>(name, at::ones(shape, dtype));
  };
  return {make("matrix", {5, 3}), make("bias", {7}), make("unused", {2, 2})};
}

// Adds the gradients of a loss, as its backward does, to all weights but the last.
void AddLossGradients(const base::Parameters& parameters, int loss, int rank) {
  for (int i = 0; i < 2; ++i) {
    base::Parameter& parameter = *parameters[i];
    parameter.AddGradient(
        RankGradient(parameter.shape(), 10 * loss + i, rank).to(parameter.gradient_dtype()));
  }
}

struct TakenKind {
  int stage;
  at::ScalarType dtype = at::kDouble;
  std::optional<at::ScalarType> held = std::nullopt;  // bf16 copies beside fp32 masters
};

void TakeCombineAndSet(const TakenKind& kind, const std::shared_ptr<comm::World>& world) {
  const double tolerance = kind.dtype == at::kDouble ? 1e-13 : 1e-6;
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<comm::Mesh> mesh, comm::Mesh::Create(world, 2));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Zero> zero,
                       Zero::Create({.stage = kind.stage}, *mesh));
  const base::Parameters parameters = ThreeWeights(kind.dtype);
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<States> states,
                       States::Create(zero, parameters, kind.held));
  std::vector<States::Gradients> taken;
  for (const int loss : {0, 1}) {
    AddLossGradients(parameters, loss, world->rank());
    ASSERT_OK(states->SumGradients());
    taken.push_back(states->TakeGradients());
    EXPECT_EQ(taken.back().size(), 2);
    ASSERT_OK_AND_ASSIGN(const at::Tensor nothing, states->Gradient("matrix"));
    EXPECT_FALSE(nothing.defined());
  }
  std::vector<std::vector<at::Tensor>> whole;
  for (const int loss : {0, 1}) {
    whole.push_back({});
    for (int i = 0; i < 2; ++i)
      whole.back().push_back(WholeGradientOf(parameters[i]->shape(), 10 * loss + i));
  }
  double product = 0;
  for (int i = 0; i < 2; ++i) product += (whole[0][i] * whole[1][i]).sum().item<double>();
  ASSERT_OK_AND_ASSIGN(const double dot, states->Dot(taken[0], taken[1]));
  EXPECT_NEAR(dot, product, tolerance * 100);

  // One weight's gradient is set by shards, the other's as a whole, in another dtype.
  ASSERT_OK(states->SetGradient("matrix", taken[0]["matrix"] - taken[1]["matrix"] * 2));
  ASSERT_OK(states->SetGradient("bias", (whole[0][1] + whole[1][1]).to(kind.dtype)));
  const at::Tensor expected[] = {whole[0][0] - whole[1][0] * 2, whole[0][1] + whole[1][1]};
  ASSERT_OK_AND_ASSIGN(const double norm, states->Norm());
  EXPECT_NEAR(norm * norm, (expected[0].square().sum() + expected[1].square().sum()).item<double>(),
              tolerance * 100);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const at::Tensor gradient, states->Gradient(parameters[i]->name()));
    EXPECT_TRUE(RelativeError(gradient.to(at::kDouble), expected[i], tolerance));
  }
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Optimizer> sgd, Sgd::Create({}, states->shards()));
  sgd->Step(0.5);
  ASSERT_OK(states->Publish());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(RelativeError(parameters[i]->LeaseWhole(kind.dtype).to(at::kDouble),
                              1 - 0.5 * expected[i], tolerance));
  }
  EXPECT_TRUE(parameters[2]->LeaseWhole(kind.dtype).eq(1).all().item<bool>());
  EXPECT_THAT(states->SetGradient("matrix", at::zeros({3, 5})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a floating type")));
  EXPECT_THAT(states->SetGradient("mtrix", at::zeros({5, 3})),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("mtrix")));
}

TEST(StatesGradientsTest, AreTakenCombinedAndSetUnderEveryStage) {
  for (const TakenKind& kind :
       {TakenKind{0}, TakenKind{1}, TakenKind{2}, TakenKind{3},
        TakenKind{2, at::kFloat, at::kBFloat16}, TakenKind{3, at::kFloat}}) {
    SCOPED_TRACE(kind.stage);
    RunRanks(kOfRanks, [&](std::shared_ptr<comm::World> world) { TakeCombineAndSet(kind, world); });
  }
}

}  // namespace
}  // namespace moonring::trainer
