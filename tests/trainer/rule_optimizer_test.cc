// Optimizers whose update rule is a function equal the built-in AdamW, for every ZeRO stage and
// number of ranks, also when saved on some ranks and loaded on others; and errors.

#include "trainer/optimizer/rule_optimizer.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/status/torch_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"
#include "trainer/checkpoint/saved_states.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/sharding/owners.h"
#include "trainer/sharding/zero.h"

namespace moonring::trainer {
namespace {

using State = UpdateRule::State;
using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8, kDecay = 0.1;

// AdamW as its paper defines it; its state tensors are replaced, not written in place.
State AdamWStep(const at::Tensor& weight, const at::Tensor& gradient, State state, double lr,
                int64_t step, double decay) {
  const at::Tensor m = state.at("m") * kBeta1 + gradient * (1 - kBeta1),
                   v = state.at("v") * kBeta2 + gradient * gradient * (1 - kBeta2);
  weight.mul_(1 - lr * decay);
  weight.sub_(m / (v.sqrt() / std::sqrt(1 - std::pow(kBeta2, step)) + kEpsilon) *
              (lr / (1 - std::pow(kBeta1, step))));
  return {{"m", m}, {"v", v}};
}

UpdateRule AdamWRule() {
  return {.state = [](size_t, const at::Tensor& weight) -> State {
            return {{"m", at::zeros_like(weight)}, {"v", at::zeros_like(weight)}};
          },
          .update =
              [](size_t, const at::Tensor& weight, const at::Tensor& gradient, State state,
                 double lr, int64_t step) {
                return AdamWStep(weight, gradient, std::move(state), lr, step, kDecay);
              }};
}

// Returns a rule that, for matrices, needs the whole matrix: it multiplies the matrix with itself.
// A matrix's state is a tensor of its shape, one with a number per row, and a number. All other
// weights use AdamW.
UpdateRule MixedRule(const std::vector<bool>& whole) {
  UpdateRule rule = AdamWRule();
  const auto state_of = rule.state;
  const auto update_of = rule.update;
  rule.state = [=](size_t index, const at::Tensor& weight) -> State {
    if (!whole[index]) return state_of(index, weight);
    return {{"m", at::zeros_like(weight)},
            {"rows", at::zeros({weight.size(0)}, weight.options())},
            {"norm", at::zeros({}, weight.options())}};
  };
  rule.update = [=](size_t index, const at::Tensor& weight, const at::Tensor& gradient, State state,
                    double lr, int64_t step) {
    if (!whole[index]) return update_of(index, weight, gradient, std::move(state), lr, step);
    state["m"].mul_(0.9).add_(gradient);
    state["rows"] = state["rows"] * 0.5 + gradient.square().sum(1);
    state["norm"] = state["m"].norm();
    const at::Tensor x = state["m"] / state["norm"];
    weight.sub_((x * 1.5 - x.mm(x.t()).mm(x) * 0.5) / (state["rows"].unsqueeze(1) + 1.0), lr);
    return state;
  };
  return rule;
}

struct RuleKind {
  int ranks = 1, stage = 0;
  at::ScalarType weights = at::kFloat;
  std::optional<at::ScalarType> held;
  int64_t bucket_bytes = int64_t{32} << 20;
};

struct RuleOutcome {
  std::vector<StateTensors> saved;            // by rank of the group that parts
  std::map<std::string, at::Tensor> weights;  // whole, as leases have them
  std::vector<int64_t> state_bytes;           // by rank of the world
};

base::Parameters RuleWeights(at::ScalarType dtype) {
  const auto counted = [&](std::vector<int64_t> shape) {
    return at::arange(c10::multiply_integers(shape), at::kDouble)
        .mul(0.37)
        .sin()
        .reshape(shape)
        .to(dtype);
  };
  return {std::make_shared<base::Parameter>("a.weight", counted({5, 7})),
          std::make_shared<base::Parameter>("b.bias", counted({2})),
          std::make_shared<base::Parameter>("c.weight", counted({3, 4})),
          std::make_shared<base::Parameter>("idle.weight", counted({3, 3})),
          std::make_shared<base::Parameter>("d.weight", counted({6, 2})),
          std::make_shared<base::Parameter>("frozen.weight", counted({4}), /*trainable=*/false)};
}

const std::vector<bool> kMatrices = {true, false, true, true, true};  // of the trainable ones

// The ranks' gradients have the same sign, and their sum is exact if the number of ranks is a power
// of two.
RuleOutcome TrainByRule(const RuleKind& kind, int from, int to,
                        const std::vector<StateTensors>* saved = nullptr) {
  RuleOutcome outcome;
  std::mutex mutex;
  RunRanks(kind.ranks, [&](std::shared_ptr<comm::World> world) {
    auto mesh = comm::Mesh::Create(world, 1);
    ASSERT_OK(mesh);
    auto zero = Zero::Create({.stage = kind.stage, .bucket_bytes = kind.bucket_bytes}, **mesh);
    ASSERT_OK(zero);
    const base::Parameters parameters = RuleWeights(kind.weights);
    auto states = States::Create(*zero, parameters, kind.held);
    ASSERT_OK(states);
    auto optimizer = RuleOptimizer::Create(
        MixedRule(kMatrices),
        {.whole = kMatrices, .shards = (*zero)->shards(), .bucket_bytes = kind.bucket_bytes},
        (*states)->shards());
    ASSERT_OK(optimizer);
    if (saved != nullptr) {
      ASSERT_OK(LoadStates(**states, **optimizer, *saved));
      ASSERT_OK((*states)->Publish());
    }
    for (int step = from; step < to; ++step) {
      (*states)->ClearGradients();
      for (const auto& parameter : parameters) {
        if (!parameter->trainable() || parameter->name() == "idle.weight") continue;
        const at::Tensor gradient = at::arange(parameter->numel(), at::kDouble)
                                        .add(step)
                                        .mul(1.3)
                                        .cos()
                                        .to(parameter->gradient_dtype())
                                        .reshape(parameter->shape());
        parameter->AddGradient(gradient / kind.ranks);
      }
      ASSERT_OK((*states)->SumGradients());
      (*optimizer)->Step(1e-2);
      ASSERT_OK((*states)->Publish());
    }
    const std::lock_guard<std::mutex> lock(mutex);
    outcome.saved.resize((*zero)->shards()->size());
    outcome.state_bytes.resize(kind.ranks);
    outcome.state_bytes[world->rank()] = (*optimizer)->state_bytes();
    ASSERT_OK_AND_ASSIGN(const StateTensors saved, SaveStates(**states, **optimizer));
    for (const auto& [key, tensor] : saved)
      outcome.saved[(*zero)->shards()->rank()][key] = tensor.clone();
    if (kind.stage == 3 || kind.held.has_value()) return;  // a lease is a call of all ranks
    for (const auto& parameter : parameters)
      outcome.weights[parameter->name()] = parameter->Lease(kind.weights).clone();
  });
  return outcome;
}

// Joins the shards; states that are not sharded are taken from the rank that saved them.
std::map<std::string, at::Tensor> JoinedStates(const RuleOutcome& outcome) {
  std::map<std::string, at::Tensor> whole;
  for (const StateTensors& saved : outcome.saved) {
    for (const auto& [key, part] : saved) {
      const bool is_part = part.dim() == 1 && whole.contains(key);
      whole[key] = is_part ? at::cat({whole[key], part}) : part;
    }
  }
  return whole;
}

void ExpectSameSaved(const RuleOutcome& a, const RuleOutcome& b, bool bit_equal) {
  const auto of_a = JoinedStates(a), of_b = JoinedStates(b);
  EXPECT_EQ(of_a.size(), of_b.size());
  for (const auto& [key, tensor] : of_b) {
    ASSERT_TRUE(of_a.contains(key)) << key;
    EXPECT_TRUE(bit_equal ? BitEqual(of_a.at(key), tensor)
                          : RelativeError(of_a.at(key), tensor, 1e-6))
        << key;
  }
}

TEST(RuleOptimizerTest, AdamWAsARuleIsTheBuiltIn) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const base::Parameters ours = RuleWeights(dtype), theirs = RuleWeights(dtype);
    auto rule = RuleOptimizer::Create(AdamWRule(), {}, {ours[0], ours[2]});
    auto adamw = AdamW::Create({kBeta1, kBeta2, kEpsilon, kDecay}, {theirs[0], theirs[2]});
    ASSERT_OK(rule);
    ASSERT_OK(adamw);
    for (int step = 1; step <= 20; ++step) {
      for (const int i : {0, 2}) {
        const at::Tensor gradient =
            (theirs[i]->weight().to(theirs[i]->gradient_dtype()) * step * 3.0).sin();
        for (const auto& parameter : {ours[i], theirs[i]}) {
          parameter->ClearGradient();
          parameter->AddGradient(gradient);
        }
      }
      (*rule)->Step(1e-2 / step);
      (*adamw)->Step(1e-2 / step);
    }
    const double bound = dtype == at::kDouble ? 1e-14 : dtype == at::kFloat ? 1e-6 : 4e-3;
    for (const int i : {0, 2})
      EXPECT_TRUE(RelativeError(ours[i]->weight(), theirs[i]->weight(), bound)) << dtype;
    EXPECT_EQ((*rule)->state_bytes(), (*adamw)->state_bytes());
  }
}

TEST(RuleOptimizerTest, NoStageAndNoNumberOfRanksChangesABit) {
  for (const at::ScalarType weights : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const RuleOutcome plain = TrainByRule({.weights = weights}, 0, 5);
    for (const int ranks : {1, 2, 4}) {
      for (int stage = 0; stage <= 3; ++stage) {
        for (const int64_t bucket : {int64_t{1}, int64_t{1} << 20}) {
          if (bucket == 1 && weights != at::kFloat) continue;
          SCOPED_TRACE(::testing::Message() << weights << ", " << ranks << " ranks, stage " << stage
                                            << ", buckets of " << bucket);
          const RuleOutcome found = TrainByRule(
              {.ranks = ranks, .stage = stage, .weights = weights, .bucket_bytes = bucket}, 0, 5);
          ExpectSameSaved(found, plain, /*bit_equal=*/true);
          for (const auto& [name, weight] : found.weights)
            EXPECT_TRUE(BitEqual(weight, plain.weights.at(name))) << name;
          // A sharded state is stored once in total; the step count, 4 bytes per parameter, is
          // stored by every rank that updates the parameter.
          if (stage > 0 && ranks > 1) {
            const int64_t all =
                std::accumulate(found.state_bytes.begin(), found.state_bytes.end(), int64_t{0});
            EXPECT_GE(all, plain.state_bytes[0]);
            EXPECT_LE(all, plain.state_bytes[0] + 4 * 4 * ranks);
          }
        }
      }
    }
  }
}

TEST(RuleOptimizerTest, ResumesBitForBitOnAnyRanks) {
  const std::vector<RuleKind> kinds = {{},
                                       {.ranks = 2},
                                       {.ranks = 2, .stage = 1, .held = at::kBFloat16},
                                       {.ranks = 4, .stage = 2},
                                       {.ranks = 4, .stage = 3},
                                       {.ranks = 2, .stage = 3, .held = at::kBFloat16}};
  const RuleOutcome whole = TrainByRule({}, 0, 5);
  for (const RuleKind& from : kinds) {
    const RuleOutcome half = TrainByRule(from, 0, 3);
    for (const RuleKind& to : kinds) {
      SCOPED_TRACE(::testing::Message() << from.ranks << " ranks, stage " << from.stage << " to "
                                        << to.ranks << ", stage " << to.stage);
      ExpectSameSaved(TrainByRule(to, 3, 5, &half.saved), whole, /*bit_equal=*/true);
    }
  }
}

TEST(OwnersTest, ShareTheNumbersByShapesAlone) {
  EXPECT_EQ(OwnersOf({10, 4, 3, 3, 9, 0}, 1), (std::vector<int>{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(OwnersOf({10, 4, 3, 3, 9, 0}, 3), (std::vector<int>{0, 1, 2, 2, 1, 2}));
}

// A single parameter, with any rule.
class OneWeight {
 public:
  explicit OneWeight(UpdateRule rule, bool whole = false) {
    auto made = RuleOptimizer::Create(std::move(rule), {.whole = {whole}}, {weight});
    EXPECT_OK(made);
    optimizer = *std::move(made);
  }
  absl::Status Step() {
    weight->ClearGradient();
    weight->AddGradient(at::ones({2, 3}));
    return base::TryTorch([&] { optimizer->Step(0.1); });
  }

  std::shared_ptr<base::Parameter> weight =
      std::make_shared<base::Parameter>("w.weight", at::ones({2, 3}));
  std::unique_ptr<RuleOptimizer> optimizer;
};

UpdateRule Keeping(State state) {
  return {.state = [=](size_t, const at::Tensor&) { return state; },
          .update = [](size_t, const at::Tensor&, const at::Tensor&, State kept, double,
                       int64_t) { return kept; }};
}

TEST(RuleOptimizerTest, RefusesStatesThatDoNotFit) {
  const auto refused = [](UpdateRule rule, const std::string& why) {
    EXPECT_THAT(OneWeight(std::move(rule)).Step(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(
      Keeping({{"m", at::zeros({2, 3})}}),
      "the state 'm' of w.weight: expected the shape [6] of its part, or [], got [2, 3]; a state "
      "of another shape is for `whole` parameters");
  refused(Keeping({{"step", at::zeros({6})}}), "a state cannot be named 'step'");
  refused(Keeping({{"a/b", at::zeros({6})}}), "a state's name is 'a/b', expected one without '/'");
  UpdateRule rule = Keeping({{"m", at::zeros({6})}});
  rule.update = [](size_t, const at::Tensor&, const at::Tensor&, State, double, int64_t) -> State {
    return {{"m", at::zeros({5})}};
  };
  refused(rule, "after the step the state 'm' of w.weight is [5] of Float; expected [6] of Float");
  rule.update = [](size_t, const at::Tensor&, const at::Tensor&, State, double, int64_t) -> State {
    return {{"v", at::zeros({6})}};
  };
  refused(rule, "after the step the state of w.weight is v; expected m");
}

// If a rule returns a state that is an alias of the weight, the gradient or another state, the
// state is copied, so that it does not change with them.
TEST(RuleOptimizerTest, KeepsCopiesOfWhatIsNotItsOwn) {
  UpdateRule rule;
  rule.state = [](size_t, const at::Tensor& weight) -> State {
    const at::Tensor zeros = at::zeros_like(weight);
    return {{"first", weight}, {"m", zeros}, {"v", zeros}, {"last", zeros}};
  };
  rule.update = [](size_t, const at::Tensor& weight, const at::Tensor& gradient, State state,
                   double lr, int64_t) {
    weight.sub_(gradient, lr);
    state["m"].add_(1);
    state["last"] = gradient;
    return state;
  };
  OneWeight one(rule);
  ASSERT_OK(one.Step());
  one.weight->mutable_gradient().zero_();
  const auto saved = one.optimizer->SaveState();
  EXPECT_TRUE(BitEqual(saved.at("first/w.weight"), at::ones({6})));
  EXPECT_TRUE(BitEqual(saved.at("m/w.weight"), at::ones({6})));
  EXPECT_TRUE(BitEqual(saved.at("v/w.weight"), at::zeros({6})));
  EXPECT_TRUE(BitEqual(saved.at("last/w.weight"), at::ones({6})));
}

TEST(RuleOptimizerTest, EndsAtNonFiniteWeights) {
  UpdateRule rule = Keeping({});
  rule.update = [](size_t, const at::Tensor& weight, const at::Tensor&, State state, double,
                   int64_t step) {
    if (step == 2) weight.select(0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    return state;
  };
  OneWeight one(rule, /*whole=*/true);
  ASSERT_OK(one.Step());
  EXPECT_THAT(one.Step(),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("its step left 1 weight that is not finite (w.weight)")));
}

TEST(RuleOptimizerTest, RefusesWhatWasSavedByAnotherRule) {
  OneWeight one(AdamWRule()), whole(Keeping({{"m", at::zeros({2, 3})}}), /*whole=*/true);
  ASSERT_OK(one.Step());
  ASSERT_OK(whole.Step());
  const auto saved = one.optimizer->SaveState();
  const auto refused = [&](OneWeight& by, std::map<std::string, at::Tensor> state,
                           const std::string& why) {
    EXPECT_THAT(by.optimizer->LoadState(state),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(whole, saved, "the checkpoint's state of w.weight is m, step, v; expected m, step");
  refused(one, whole.optimizer->SaveState(), "is m, step; expected m, step, v");
  auto changed = saved;
  changed["m/w.weight"] = at::zeros({5});
  refused(one, changed, "the checkpoint's state 'm' of w.weight has shape [5], expected [6]");
  refused(whole, {{"m/w.weight", at::zeros({6})}, {"step/w.weight", at::ones({})}},
          "'m' of w.weight has shape [6], expected [2, 3]");
  changed = saved;
  changed["m/other.weight"] = at::zeros({6});
  refused(one, changed, "the state of other.weight, which is no parameter of it");
  EXPECT_TRUE(BitEqual(one.optimizer->SaveState().at("m/w.weight"), saved.at("m/w.weight")));
  ASSERT_OK(one.optimizer->LoadState(saved));
  ASSERT_OK(whole.optimizer->LoadState(whole.optimizer->SaveState()));
}

}  // namespace
}  // namespace moonring::trainer
