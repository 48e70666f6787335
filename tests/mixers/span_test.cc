// Spans of a packed stream as linear maps of the state: separately, composed, and in the backward.
// fp64, 1e-10, since sums have another order.
#include "mixers/rule/span.h"

#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "gtest/gtest.h"
#include "mixers/rule/delta_recurrence.h"
#include "mixers/rule/delta_rule.h"
#include "tests/mixers/delta_problem.h"
#include "tests/testing/all_close.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::DeltaProblem;
using ::moonring::testing::MakeDeltaInputs;
using ::moonring::testing::OptionsOf;
using ::moonring::testing::RelativeError;

struct Span {
  std::vector<int64_t> lengths;
  bool continues = false;
};

// Documents of 100, 1, 139 and 60 tokens, divided into four spans of 75 tokens.
const std::vector<int64_t> kLengths = {100, 1, 139, 60};
std::vector<Span> Spans() { return {{{75}}, {{25, 1, 49}, true}, {{75}, true}, {{15, 60}, true}}; }

DeltaInputs Part(const DeltaInputs& whole, int64_t begin, int64_t rows) {
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, rows); };
  return {part(whole.q_THK), part(whole.k_THK),   part(whole.v_THV),
          part(whole.g),     part(whole.beta_TH), {}};
}

class SpanTest : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  // A weak decay, so that some of the state remains after a whole span.
  const DeltaProblem problem_{"",   kLengths, std::get<0>(GetParam()), false, true, 2, 4, 8, 6,
                              0.01, 0,        std::get<1>(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(ByChannelWithDelta, SpanTest,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST_P(SpanTest, AMapIsTheRecurrenceFromAnyState) {
  DeltaProblem problem = problem_;
  problem.lengths = {75};
  problem.initial = true;
  const DeltaInputs inputs = MakeDeltaInputs(problem);
  const SpanMap map = MapOfSpan(inputs, {75}, /*continues=*/true, OptionsOf(problem));
  const at::Tensor expected = DeltaRecurrence(inputs, {75}, OptionsOf(problem)).final_DHVK[0];
  EXPECT_TRUE(RelativeError(ApplySpan(map, inputs.initial_DHVK[0]), expected, 1e-10));
  EXPECT_GT(map.a_HKK.norm().item<double>(), 0);
  const SpanMap first = MapOfSpan(inputs, {75}, /*continues=*/false, OptionsOf(problem));
  EXPECT_EQ(first.a_HKK.norm().item<double>(), 0);
  EXPECT_TRUE(RelativeError(first.b_HVK, map.b_HVK, 1e-10));
  const SpanMap none = MapOfSpan(Part(inputs, 0, 0), {}, true, OptionsOf(problem));
  EXPECT_TRUE(testing::BitEqual(ApplySpan(none, inputs.initial_DHVK[0]), inputs.initial_DHVK[0]));
}

TEST_P(SpanTest, CompositionIsTheMapOfBoth) {
  const DeltaInputs whole = MakeDeltaInputs(problem_);
  const auto map = [&](int64_t begin, int64_t rows) {
    return MapOfSpan(Part(whole, begin, rows), {rows}, true, OptionsOf(problem_));
  };
  const SpanMap made =
      ComposeSpans(ComposeSpans(map(0, 10), map(10, 70)), ComposeSpans(map(80, 1), map(81, 19)));
  const SpanMap expected = map(0, 100);
  EXPECT_TRUE(RelativeError(made.a_HKK, expected.a_HKK, 1e-10));
  EXPECT_TRUE(RelativeError(made.b_HVK, expected.b_HVK, 1e-10));
}

TEST_P(SpanTest, SpansWithTheirFirstStatesAreTheWholeForwardAndBackward) {
  DeltaInputs whole = MakeDeltaInputs(problem_);
  const base::Tensors leaves = {whole.q_THK.requires_grad_(), whole.k_THK.requires_grad_(),
                                whole.v_THV.requires_grad_(), whole.g.requires_grad_(),
                                whole.beta_TH.requires_grad_()};
  const DeltaResult expected = DeltaRecurrence(whole, kLengths, OptionsOf(problem_));
  const at::Tensor d_out = at::randn_like(expected.out_THV);
  const base::Tensors gradients = base::Differentiate({expected.out_THV}, leaves, {d_out});

  const std::vector<Span> spans = Spans();
  std::vector<SpanMap> maps;
  std::vector<base::Tensors> inputs;
  std::vector<DeltaResult> results;
  at::Tensor state = at::zeros({4, 6, 8}, at::kDouble);
  for (size_t s = 0; s < spans.size(); ++s) {
    DeltaInputs part = Part(whole, s * 75, 75);
    maps.push_back(MapOfSpan(part, spans[s].lengths, spans[s].continues, OptionsOf(problem_)));
    const int64_t documents = spans[s].lengths.size();
    part.initial_DHVK = at::zeros({documents, 4, 6, 8}, at::kDouble);
    if (spans[s].continues) part.initial_DHVK[0] = state;
    base::Tensors own;
    for (at::Tensor* x :
         {&part.q_THK, &part.k_THK, &part.v_THV, &part.g, &part.beta_TH, &part.initial_DHVK})
      own.push_back(*x = x->detach().requires_grad_());
    inputs.push_back(own);
    results.push_back(GatedDeltaRule(part, spans[s].lengths, OptionsOf(problem_)));
    EXPECT_TRUE(RelativeError(results[s].out_THV, expected.out_THV.narrow(0, s * 75, 75), 1e-10));
    state = ApplySpan(maps[s], state);
    EXPECT_TRUE(RelativeError(state, results[s].final_DHVK[documents - 1], 1e-10));
  }
  // The gradient of the state that each span passes on, computed from the last span to the first.
  at::Tensor d_state = at::zeros_like(state);
  for (int s = 3; s >= 0; --s) {
    const at::Tensor part_d_out = d_out.narrow(0, s * 75, 75);
    const at::Tensor own = base::Differentiate({results[s].out_THV}, {inputs[s][5]}, {part_d_out},
                                               {.retain_graph = true})[0];
    at::Tensor d_final = at::zeros_like(results[s].final_DHVK);
    d_final[-1] = d_state;
    const base::Tensors made = base::Differentiate({results[s].out_THV, results[s].final_DHVK},
                                                   inputs[s], {part_d_out, d_final});
    for (size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(RelativeError(made[i], gradients[i].narrow(0, s * 75, 75), 1e-10)) << s << i;
    d_state = spans[s].continues ? SpanBackward(maps[s], d_state, own[0]) : at::zeros_like(state);
    if (spans[s].continues) {
      EXPECT_TRUE(RelativeError(d_state, made[5][0], 1e-10));
    }
  }
}

}  // namespace
}  // namespace moonring::mixers
