// States that are saved on some ranks and loaded on others give the results of an uninterrupted
// run.

#include "trainer/checkpoint/saved_states.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/sgd.h"
#include "trainer/sharding/zero.h"

namespace moonring::trainer {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

struct SavedKind {
  int ranks = 1, stage = 0;
  at::ScalarType weights = at::kFloat;
  std::optional<at::ScalarType> held;
  Offload offload = Offload::kNone;
  bool sgd = false;
  MomentDtype moments = MomentDtype::kFull;
};

struct SavedOutcome {
  std::vector<StateTensors> saved;            // by rank of the group that parts
  std::map<std::string, at::Tensor> weights;  // whole, as leases have them
};

// Returns weights whose sizes are not divisible by three; one has no gradient, and so no state.
// `wide` adds a weight that is large enough for 8-bit states.
base::Parameters SavedWeights(at::ScalarType dtype, bool wide = false) {
  const auto counted = [&](std::vector<int64_t> shape) {
    return at::arange(c10::multiply_integers(shape), at::kDouble)
        .mul(0.37)
        .sin()
        .mul(0.1)
        .reshape(shape)
        .to(dtype);
  };
  base::Parameters parameters = {
      std::make_shared<base::Parameter>("a.weight", counted({5, 7})),
      std::make_shared<base::Parameter>("b.bias", counted({2})),
      std::make_shared<base::Parameter>("idle.weight", counted({3, 3})),
      std::make_shared<base::Parameter>("frozen.weight", counted({4}), /*trainable=*/false)};
  if (wide)
    parameters.push_back(std::make_shared<base::Parameter>("wide.weight", counted({70, 65})));
  return parameters;
}

// Runs steps [from, to) from the initial weights, or from saved states. Each rank adds the same
// gradient, so the number of ranks is only a factor, which has no effect.
SavedOutcome TrainSteps(const SavedKind& kind, int from, int to,
                        const std::vector<StateTensors>* saved = nullptr) {
  SavedOutcome outcome;
  std::mutex mutex;
  RunRanks(kind.ranks, [&](std::shared_ptr<comm::World> world) {
    auto mesh = comm::Mesh::Create(world, 1);
    ASSERT_OK(mesh);
    auto zero = Zero::Create(
        {.stage = kind.stage, .offload = kind.offload, .folder = ::testing::TempDir()}, **mesh);
    ASSERT_OK(zero);
    const base::Parameters parameters =
        SavedWeights(kind.weights, kind.moments != MomentDtype::kFull);
    auto states = States::Create(*zero, parameters, kind.held);
    ASSERT_OK(states);
    const std::unique_ptr<Optimizer> optimizer =
        kind.sgd ? std::unique_ptr<Optimizer>(*Sgd::Create({}, (*states)->shards()))
                 : std::unique_ptr<Optimizer>(*AdamW::Create(
                       {.weight_decay = 0.1, .memory = (*zero)->memory(), .moments = kind.moments},
                       (*states)->shards()));
    if (saved != nullptr) {
      ASSERT_OK(LoadStates(**states, *optimizer, *saved));
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
                                        .reshape(parameter->shape())
                                        .div(kind.ranks);
        parameter->AddGradient(gradient.to(parameter->gradient_dtype()));
      }
      ASSERT_OK((*states)->SumGradients());
      optimizer->Step(1e-2);
      ASSERT_OK((*states)->Publish());
    }
    const std::lock_guard<std::mutex> lock(mutex);
    outcome.saved.resize((*zero)->shards()->size());
    ASSERT_OK_AND_ASSIGN(const StateTensors saved, SaveStates(**states, *optimizer));
    for (const auto& [key, tensor] : saved)
      outcome.saved[(*zero)->shards()->rank()][key] = tensor.clone();
    for (const auto& parameter : parameters) {
      if (kind.ranks == 1)
        outcome.weights[parameter->name()] = parameter->Lease(kind.weights).clone();
    }
  });
  return outcome;
}

// Returns the fp32 master weights, joined over ranks.
std::map<std::string, at::Tensor> Masters(const SavedOutcome& outcome) {
  std::map<std::string, at::Tensor> whole;
  for (const StateTensors& saved : outcome.saved) {
    for (const auto& [key, part] : saved) {
      if (part.dim() == 1) whole[key] = whole.contains(key) ? at::cat({whole[key], part}) : part;
    }
  }
  return whole;
}

void ExpectSameMasters(const SavedOutcome& a, const SavedOutcome& b, bool bit_equal) {
  const auto of_a = Masters(a), of_b = Masters(b);
  ASSERT_EQ(of_a.size(), of_b.size());
  for (const auto& [key, tensor] : of_a) {
    EXPECT_TRUE(bit_equal ? BitEqual(tensor, of_b.at(key))
                          : RelativeError(tensor, of_b.at(key), 1e-6))
        << key;
  }
}

TEST(SavedStatesTest, ResumeBitForBitOnTheSameRanks) {
  for (const SavedKind& kind : std::vector<SavedKind>{
           {},
           {.weights = at::kBFloat16},
           {.weights = at::kDouble},
           {.sgd = true},
           {.offload = Offload::kDisk},
           {.ranks = 3, .stage = 1},
           {.ranks = 3, .stage = 2, .held = at::kBFloat16},
           {.ranks = 3, .stage = 3},
           {.ranks = 3, .stage = 3, .held = at::kBFloat16, .offload = Offload::kDisk},
           {.moments = MomentDtype::kBf16},
           {.moments = MomentDtype::k8Bit},
           {.offload = Offload::kDisk, .moments = MomentDtype::k8Bit},
           {.ranks = 3, .stage = 1, .moments = MomentDtype::kBf16},
           {.ranks = 3, .stage = 2, .moments = MomentDtype::k8Bit}}) {
    SCOPED_TRACE(::testing::Message()
                 << kind.ranks << " ranks, stage " << kind.stage << ", " << kind.weights);
    const SavedOutcome half = TrainSteps(kind, 0, 3), whole = TrainSteps(kind, 0, 5),
                       resumed = TrainSteps(kind, 3, 5, &half.saved);
    ExpectSameMasters(resumed, whole, /*bit_equal=*/true);
    for (const auto& [name, weight] : whole.weights)
      EXPECT_TRUE(BitEqual(resumed.weights.at(name), weight)) << name;
    EXPECT_EQ(half.saved.size(), kind.stage == 0 ? 1 : kind.ranks);
  }
}

// Gradients that are summed over another number of ranks round differently.
TEST(SavedStatesTest, ResumeOnOtherRanksAndZeroStages) {
  const std::vector<SavedKind> kinds = {{},
                                        {.ranks = 2},
                                        {.ranks = 3, .stage = 1},
                                        {.ranks = 4, .stage = 2},
                                        {.ranks = 3, .stage = 3},
                                        {.ranks = 2, .stage = 3, .held = at::kBFloat16}};
  const SavedOutcome whole = TrainSteps({}, 0, 5);
  for (const SavedKind& from : kinds) {
    const SavedOutcome half = TrainSteps(from, 0, 3);
    for (const SavedKind& to : kinds) {
      SCOPED_TRACE(::testing::Message() << from.ranks << " ranks, stage " << from.stage << " to "
                                        << to.ranks << ", stage " << to.stage);
      ExpectSameMasters(TrainSteps(to, 3, 5, &half.saved), whole, /*bit_equal=*/false);
    }
  }
}

// With other shards the blocks of 8-bit codes differ, so loaded states are rounded once more, by at
// most half the distance between codes. That changes a weight by a fraction of AdamW's step at a
// learning rate of 1e-2. bf16 states are not rounded again.
TEST(SavedStatesTest, StatesInFewerBitsResumeOnOtherRanks) {
  const std::vector<std::pair<int, int>> shapes = {{1, 0}, {3, 1}, {2, 3}};
  for (const MomentDtype moments : {MomentDtype::kBf16, MomentDtype::k8Bit}) {
    const auto kind = [&](const std::pair<int, int>& shape) {
      return SavedKind{.ranks = shape.first, .stage = shape.second, .moments = moments};
    };
    const auto of_whole = Masters(TrainSteps(kind({1, 0}), 0, 5));
    for (const auto& from : shapes) {
      const SavedOutcome half = TrainSteps(kind(from), 0, 3);
      for (const auto& to : shapes) {
        SCOPED_TRACE(::testing::Message() << from.first << " ranks to " << to.first);
        const auto resumed = Masters(TrainSteps(kind(to), 3, 5, &half.saved));
        for (const auto& [key, tensor] : of_whole) {
          if (key.rfind("weight/", 0) != 0) continue;
          EXPECT_TRUE(
              RelativeError(resumed.at(key), tensor, moments == MomentDtype::kBf16 ? 1e-5 : 5e-3))
              << key;
        }
      }
    }
  }
}

TEST(SavedStatesTest, RefusesStatesOfOtherWeights) {
  const SavedOutcome half = TrainSteps({.ranks = 2, .stage = 1}, 0, 1);
  const auto refused = [](std::vector<StateTensors> saved, const std::string& why) {
    RunRanks(1, [&](std::shared_ptr<comm::World> world) {
      auto mesh = comm::Mesh::Create(world, 1);
      auto zero = Zero::Create({}, **mesh);
      auto states = States::Create(*zero, SavedWeights(at::kFloat), std::nullopt);
      auto optimizer = AdamW::Create({}, (*states)->shards());
      EXPECT_THAT(LoadStates(**states, **optimizer, saved),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
    });
  };
  const auto changed = [&](const std::function<void(std::vector<StateTensors>&)>& change) {
    std::vector<StateTensors> saved = half.saved;
    change(saved);
    return saved;
  };
  refused(changed([](auto& saved) { saved[1].erase("weight/a.weight"); }),
          "rank 1's part of weight/a.weight is missing");
  refused(changed([](auto& saved) { saved[0]["weight/c.weight"] = at::zeros({2}); }),
          "states of c.weight, which is not trainable here");
  refused(changed([](auto& saved) { saved[0]["exp_avg/a.weight"] = at::zeros({2}); }),
          "exp_avg/a.weight: rank 0 kept 2 numbers, expected 18 of 35");
  refused(changed([](auto& saved) {
            saved[0]["weight/b.bias"] = at::zeros({1}, at::kDouble),
            saved[1]["weight/b.bias"] = at::zeros({1}, at::kDouble);
          }),
          "was kept in Double");
  refused(changed([](auto& saved) {
            saved[0].erase("weight/b.bias"), saved[1].erase("weight/b.bias");
          }),
          "states of 2 of the 3 trainable weights");
  refused(changed([](auto& saved) {
            saved[0].erase("step/a.weight"), saved[1].erase("step/a.weight");
          }),
          "the state of a.weight is incomplete");
}

}  // namespace
}  // namespace moonring::trainer
