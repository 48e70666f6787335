// The gated delta rule computed in chunks, compared with the recurrence token by token.
//
// The relative bound for fp64 is 1e-10 (Frobenius norm), for outputs, final states and gradients:
// both forms add the same terms, some hundred, in another order; 1e-14 is observed. The fp32 test
// has its own bound.
#include "mixers/rule/delta_rule.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "mixers/rule/delta_recurrence.h"
#include "tests/mixers/delta_problem.h"
#include "tests/testing/all_close.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::DeltaProblem;
using ::moonring::testing::MakeDeltaInputs;
using ::moonring::testing::OptionsOf;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RelativeErrorOf;
using ::moonring::testing::RunDelta;

std::vector<DeltaProblem> RuleProblems() {
  std::vector<DeltaProblem> problems;
  for (const bool by_channel : {false, true}) {
    const std::string kind = by_channel ? "ByChannel" : "ByHead";
    for (const auto& [name, lengths] :
         {std::pair<std::string, std::vector<int64_t>>{"", {65, 0, 1, 130, 64, 17}}, {"None", {0}}})
      problems.push_back({.name = kind + "WithoutDelta" + name,
                          .lengths = lengths,
                          .by_channel = by_channel,
                          .initial = true,
                          .key_heads = 2,
                          .heads = 6,
                          .delta = false});
    problems.push_back({.name = kind + "WithoutDeltaStrongAtTimes",
                        .lengths = {150},
                        .by_channel = by_channel,
                        .initial = true,
                        .decay = 0.05,
                        .strong_every = 7,
                        .delta = false});
    for (const int64_t length : {0, 1, 63, 64, 65, 200})
      problems.push_back({kind + std::to_string(length), {length}, by_channel, true});
    const std::vector<int64_t> several = {65, 0, 1, 130, 64, 17};
    problems.push_back({kind + "Documents", several, by_channel, false});
    problems.push_back({kind + "DocumentsFromStates", several, by_channel, true});
    problems.push_back({kind + "Normalized", {70, 9}, by_channel, true, true});
    problems.push_back({kind + "SharedKeyHeads", {70, 9}, by_channel, true, true, 2, 6});
    // More data than is processed at a time (packed_heads.h): rounds are split into pieces, and
    // heads into slices.
    problems.push_back({kind + "Parts", {500, 40, 300}, by_channel, true, true, 2, 4, 64, 48});
    problems.push_back({kind + "PartsOfSlices", std::vector<int64_t>(20, 70), by_channel, true,
                        true, 2, 4, 64, 48});
    problems.push_back({kind + "Strong", {150}, by_channel, true, false, 2, 2, 8, 6, 15});
    problems.push_back(
        {kind + "StrongAtTimes", {150}, by_channel, true, false, 1, 3, 8, 6, 0.05, 7});
    problems.push_back({kind + "Weak", {150}, by_channel, true, false, 1, 3, 16, 8, 1e-3});
  }
  return problems;
}

class DeltaRuleTest : public ::testing::TestWithParam<DeltaProblem> {};

TEST_P(DeltaRuleTest, IsTheRecurrenceWithItsGradients) {
  const auto chunked = RunDelta(GatedDeltaRule, GetParam(), at::kDouble);
  const auto expected = RunDelta(DeltaRecurrence, GetParam(), at::kDouble);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(RelativeError(chunked[i].tensor, expected[i].tensor, 1e-10)) << expected[i].name;
  if (GetParam().initial) {
    EXPECT_EQ(chunked.size(), 8u);
  }
}

// fp32 compared with fp64: 2e-6 for sums in another order. Observed: 4.2e-7, and 9e-7 for the
// initial state's gradient if the first token's g is -30, because of the rounding of g.
TEST_P(DeltaRuleTest, InFp32IsNearFp64) {
  const auto exact = RunDelta(DeltaRecurrence, GetParam(), at::kDouble);
  const auto chunked = RunDelta(GatedDeltaRule, GetParam(), at::kFloat);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_TRUE(RelativeError(chunked[i].tensor, exact[i].tensor, 2e-6)) << exact[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeltaRuleTest, ::testing::ValuesIn(RuleProblems()),
                         [](const auto& info) { return info.param.name; });

// Gradients equal central differences of a weighted sum of out and the final state, with steps of
// 1e-5, whose own error is about 1e-9.
TEST(DeltaRuleFiniteDifferencesTest, OfEveryInputInSomeDirection) {
  for (const auto& [by_channel, delta] :
       {std::pair(false, true), {true, true}, {false, false}, {true, false}}) {
    DeltaProblem problem{"", {3, 66}, by_channel, true, true};
    problem.delta = delta;
    const auto gradients = RunDelta(GatedDeltaRule, problem, at::kDouble);
    at::manual_seed(11);
    const at::Tensor d_out = at::randn(gradients[0].tensor.sizes(), at::kDouble);
    const at::Tensor d_final = at::randn(gradients[1].tensor.sizes(), at::kDouble);
    for (int input = 0; input < 6; ++input) {
      at::Tensor direction;
      const auto at_step = [&](double step) {
        DeltaInputs inputs = MakeDeltaInputs(problem);
        at::Tensor* const all[] = {&inputs.q_THK, &inputs.k_THK,   &inputs.v_THV,
                                   &inputs.g,     &inputs.beta_TH, &inputs.initial_DHVK};
        if (!direction.defined()) direction = at::randn_like(*all[input]);
        *all[input] += direction * step;
        const DeltaResult result = GatedDeltaRule(inputs, problem.lengths, OptionsOf(problem));
        return ((result.out_THV * d_out).sum() + (result.final_DHVK * d_final).sum())
            .item<double>();
      };
      const double measured = (at_step(1e-5) - at_step(-1e-5)) / 2e-5;
      const double expected = (gradients[2 + input].tensor * direction).sum().item<double>();
      EXPECT_NEAR(measured, expected, 1e-6 * (1 + std::abs(expected))) << gradients[2 + input].name;
    }
  }
}

TEST(DeltaRuleStateTest, ADocumentInTwoPartsIsTheWhole) {
  const DeltaProblem problem{"", {150}, true, true};
  const DeltaInputs whole = MakeDeltaInputs(problem);
  const DeltaResult expected = GatedDeltaRule(whole, {150}, OptionsOf(problem));
  const auto part = [&](int64_t begin, int64_t end, const at::Tensor& state) {
    const auto rows = [&](const at::Tensor& x) { return x.narrow(0, begin, end - begin); };
    const DeltaInputs inputs{rows(whole.q_THK), rows(whole.k_THK),   rows(whole.v_THV),
                             rows(whole.g),     rows(whole.beta_TH), state};
    return GatedDeltaRule(inputs, {end - begin}, OptionsOf(problem));
  };
  for (const int64_t border : {64, 77}) {
    const DeltaResult first = part(0, border, whole.initial_DHVK);
    const DeltaResult second = part(border, 150, first.final_DHVK);
    EXPECT_TRUE(RelativeError(at::cat({first.out_THV, second.out_THV}), expected.out_THV, 1e-12));
    EXPECT_TRUE(RelativeError(second.final_DHVK, expected.final_DHVK, 1e-12));
  }
}

TEST(DeltaRuleStateTest, ADecayOfMinusInfinityForgets) {
  for (const bool by_channel : {false, true}) {
    const DeltaProblem problem{"", {100}, by_channel, true};
    DeltaInputs inputs = MakeDeltaInputs(problem);
    inputs.g[70].fill_(-std::numeric_limits<double>::infinity());
    inputs.g.requires_grad_();
    const DeltaResult result = GatedDeltaRule(inputs, {100}, OptionsOf(problem));
    const DeltaResult expected = DeltaRecurrence(inputs, {100}, OptionsOf(problem));
    EXPECT_TRUE(RelativeError(result.out_THV, expected.out_THV, 1e-12));
    EXPECT_TRUE(RelativeError(result.final_DHVK, expected.final_DHVK, 1e-12));
    result.out_THV.sum().backward();
    EXPECT_TRUE(inputs.g.grad().isfinite().all().item<bool>());
  }
}

TEST(DeltaRuleStateTest, InBf16OutputsAreThoseOfFp32Rounded) {
  const DeltaProblem problem{"", {100, 30}, false, true};
  DeltaInputs inputs = testing::ToDtype(MakeDeltaInputs(problem), at::kFloat);
  for (at::Tensor* x : {&inputs.q_THK, &inputs.k_THK, &inputs.v_THV}) *x = x->to(at::kBFloat16);
  const DeltaResult result = GatedDeltaRule(inputs, problem.lengths, OptionsOf(problem));
  const DeltaResult expected =
      GatedDeltaRule(testing::ToDtype(inputs, at::kFloat), problem.lengths, OptionsOf(problem));
  EXPECT_EQ(result.final_DHVK.scalar_type(), at::kFloat);
  EXPECT_TRUE(testing::BitEqual(result.out_THV, expected.out_THV.to(at::kBFloat16)));
}

TEST(DeltaRuleStateTest, RefusesWhatDoesNotFit) {
  const DeltaProblem problem{"", {5}};
  const DeltaInputs inputs = MakeDeltaInputs(problem);
  EXPECT_THROW(GatedDeltaRule(inputs, {6}, {}), c10::Error);
  DeltaInputs wrong = inputs;
  wrong.g = at::zeros({5, 3}, at::kDouble);
  EXPECT_THROW(GatedDeltaRule(wrong, {5}, {}), c10::Error);
  wrong = inputs;
  wrong.initial_DHVK = at::zeros({1, 2, 8, 6}, at::kDouble);  // transposed
  EXPECT_THROW(GatedDeltaRule(wrong, {5}, {}), c10::Error);
}

}  // namespace
}  // namespace moonring::mixers
