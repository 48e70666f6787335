// Rounds of local steps, on ranks that are threads, equal the equations of outer_steps.h over all
// groups in fp64; one local step equals an ordinary step.

#include "trainer/outer_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "comm/mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"
#include "trainer/checkpoint/saved_states.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/sgd.h"
#include "trainer/sharding/states.h"
#include "trainer/sharding/zero.h"

namespace moonring::trainer {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

using Tensors = std::map<std::string, at::Tensor>;

constexpr double kRate = 0.05, kOuterDecay = 0.1;

struct Rounds {
  int groups = 2, sp = 1, steps = 11, local = 4;
  OuterOptions outer;
  int stage = 0;
  at::ScalarType weights = at::kDouble;
  bool sgd = false;
};

// Returns weights whose sizes are divisible neither by 2 nor by 3.
Tensors FirstWeights() {
  Tensors weights;
  weights["a.weight"] = at::arange(35, at::kDouble).mul(0.37).sin().reshape({5, 7});
  weights["b.weight"] = at::arange(11, at::kDouble).mul(0.53).cos().mul(0.5);
  return weights;
}

// Returns the gradient of the loss 1/2 sum c (w - t)^2; each group has its own c and t in each
// step.
at::Tensor Gradient(const std::string& name, const at::Tensor& weight, int group, int step) {
  const at::Tensor places = at::arange(weight.numel(), at::kDouble).reshape(weight.sizes());
  const double phase = 1.7 * group + 0.9 * step + (name == "a.weight" ? 0.0 : 2.0);
  const at::Tensor target = (places * 0.21 + phase).sin(),
                   scale = (places * 0.13 - phase).cos() + 2;
  return scale * (weight - target);
}

// A step of torch.optim.AdamW, or of plain gradient descent, from its formula.
struct Inner {
  bool sgd;
  std::map<std::string, at::Tensor> mean, square;
  int made = 0;

  void Step(Tensors& weights, int group, int step) {
    ++made;
    for (auto& [name, weight] : weights) {
      const at::Tensor gradient = Gradient(name, weight, group, step);
      weight = weight * (1 - kRate * kOuterDecay);
      if (sgd) {
        weight = weight - kRate * gradient;
        continue;
      }
      if (!mean.contains(name))
        mean[name] = at::zeros_like(gradient), square[name] = at::zeros_like(gradient);
      mean[name] = 0.9 * mean[name] + 0.1 * gradient;
      square[name] = 0.999 * square[name] + 0.001 * gradient * gradient;
      const at::Tensor up = mean[name] / (1 - std::pow(0.9, made)),
                       down = (square[name] / (1 - std::pow(0.999, made))).sqrt() + 1e-8;
      weight = weight - kRate * up / down;
    }
  }
};

// Returns the synchronized weights after all steps, by the equations, with x_t and d_t of every t
// in memory.
Tensors Equations(const Rounds& run) {
  std::vector<Inner> inner(run.groups, Inner{run.sgd});
  std::vector<Tensors> x = {FirstWeights()}, d;
  Tensors m;
  const auto act = [&](const Tensors& by) {
    Tensors next;
    for (const auto& [name, mean] : by) {
      at::Tensor& momentum = m[name];
      momentum = momentum.defined() ? run.outer.momentum * momentum + mean : mean.clone();
      if (run.outer.clip > 0)
        momentum = momentum.minimum(at::full_like(momentum, run.outer.clip))
                       .maximum(at::full_like(momentum, -run.outer.clip));
      const at::Tensor move = run.outer.nesterov ? mean + run.outer.momentum * momentum : momentum;
      next[name] = x.back().at(name) - run.outer.learning_rate * move;
    }
    return next;
  };
  for (int step = 0; step < run.steps;) {
    const int end = std::min(step + run.local, run.steps);
    Tensors mean;
    for (int group = 0; group < run.groups; ++group) {
      Tensors own = x.back();
      for (int k = step; k < end; ++k) inner[group].Step(own, group, k);
      for (const auto& [name, weight] : own) {
        const at::Tensor moved = (x.back().at(name) - weight) / run.groups;
        mean[name] = mean.contains(name) ? mean[name] + moved : moved;
      }
    }
    d.push_back(mean);
    step = end;
    if (!run.outer.overlap) {
      x.push_back(act(d.back()));
    } else if (d.size() == 1) {
      x.push_back(x.back());  // nothing has arrived
    } else {
      x.push_back(act(d[d.size() - 2]));
    }
  }
  return run.outer.overlap ? act(d.back()) : x.back();
}

struct Saved {
  std::vector<std::vector<StateTensors>> states;  // by group, by rank of its shards
  std::vector<StateTensors> outer;
  int inner = 0;
};

struct RoundsOutcome {
  Tensors weights;
  Saved saved;                                       // after `save_at` steps
  std::vector<int64_t> outer_bytes, gradient_bytes;  // sent by rank 0, after each step
};

// The objects of one rank.
struct Rank {
  std::shared_ptr<comm::Mesh> mesh;
  std::shared_ptr<States> states;
  base::Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
};

void Open(const Rounds& run, std::shared_ptr<comm::World> world, bool apart, Rank& rank) {
  ASSERT_OK_AND_ASSIGN(rank.mesh, comm::Mesh::Create(world, run.sp));
  ASSERT_OK_AND_ASSIGN(
      const std::shared_ptr<Zero> zero,
      Zero::Create({.stage = run.stage, .group = ZeroGroup::kSp, .apart = apart}, *rank.mesh));
  for (const auto& [name, weight] : FirstWeights())
    rank.parameters.push_back(
        std::make_shared<base::Parameter>(name, weight.to(run.weights, false, /*copy=*/true)));
  ASSERT_OK_AND_ASSIGN(rank.states, States::Create(zero, rank.parameters, std::nullopt));
  if (run.sgd) {
    ASSERT_OK_AND_ASSIGN(rank.optimizer,
                         Sgd::Create({.weight_decay = kOuterDecay}, rank.states->shards()));
  } else {
    ASSERT_OK_AND_ASSIGN(rank.optimizer,
                         AdamW::Create({.weight_decay = kOuterDecay}, rank.states->shards()));
  }
}

// Each sp rank adds its share of its group's gradient.
void AddGradients(const Rounds& run, Rank& rank, int step) {
  for (const auto& parameter : rank.parameters) {
    const at::Tensor weight = parameter->Lease(at::kDouble);
    const at::Tensor gradient = Gradient(parameter->name(), weight, rank.mesh->dp_rank(), step);
    parameter->AddGradient((gradient / run.sp).to(parameter->gradient_dtype()));
  }
}

RoundsOutcome TrainRounds(const Rounds& run, int save_at = -1, const Saved* from = nullptr,
                          int first_step = 0) {
  RoundsOutcome outcome;
  std::mutex mutex;
  RunRanks(run.groups * run.sp, [&](std::shared_ptr<comm::World> world) {
    Rank rank;
    ASSERT_NO_FATAL_FAILURE(Open(run, world, /*apart=*/true, rank));
    const int group = rank.mesh->dp_rank();
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<OuterSteps> outer,
                         OuterSteps::Create(run.outer, *rank.mesh, rank.states));
    int inner = 0;
    if (from != nullptr) {
      ASSERT_OK(LoadStates(*rank.states, *rank.optimizer, from->states[group]));
      ASSERT_OK(outer->Load(from->outer));
      ASSERT_OK(rank.states->Publish());
      inner = from->inner;
    }
    for (int step = first_step; step < run.steps; ++step) {
      rank.states->ClearGradients();
      AddGradients(run, rank, step);
      ASSERT_OK(rank.states->SumGradients());
      rank.optimizer->Step(kRate);
      if (++inner == run.local || step + 1 == run.steps) {
        ASSERT_OK(outer->EndRound());
        inner = 0;
      }
      ASSERT_OK(rank.states->Publish());
      if (world->rank() == 0) outcome.outer_bytes.push_back(outer->counters().bytes_sent);
      if (step + 1 != save_at) continue;
      const Zero& zero = *rank.states->zero();
      ASSERT_OK_AND_ASSIGN(const StateTensors states, SaveStates(*rank.states, *rank.optimizer));
      ASSERT_OK_AND_ASSIGN(const StateTensors common, outer->Save());
      const std::lock_guard<std::mutex> lock(mutex);
      Saved& saved = outcome.saved;
      saved.inner = inner;
      saved.states.resize(run.groups);
      saved.states[group].resize(zero.shards()->size());
      saved.outer.resize(zero.shards()->size());
      if (zero.replicas()->rank() != 0) continue;
      for (const auto& [key, tensor] : states)
        saved.states[group][zero.shards()->rank()][key] = tensor.clone();
      for (const auto& [key, tensor] : common) {
        at::Tensor& place = saved.outer[zero.shards()->rank()][key];
        if (place.defined()) {
          EXPECT_TRUE(BitEqual(place, tensor)) << key << " is not the same on all groups";
        }
        place = tensor.clone();
      }
    }
    ASSERT_OK(outer->Finish());
    ASSERT_OK(rank.states->Publish());
    Tensors weights;
    for (const auto& parameter : rank.parameters)
      weights[parameter->name()] = parameter->Lease(run.weights).clone();
    const std::lock_guard<std::mutex> lock(mutex);
    if (outcome.weights.empty()) outcome.weights = weights;
    for (const auto& [name, weight] : weights)
      EXPECT_TRUE(BitEqual(weight, outcome.weights.at(name))) << name;
  });
  return outcome;
}

void ExpectSameTensors(const Tensors& ours, const Tensors& wanted, double tolerance) {
  ASSERT_EQ(ours.size(), wanted.size());
  for (const auto& [name, weight] : wanted)
    EXPECT_TRUE(tolerance == 0 ? BitEqual(ours.at(name), weight)
                               : RelativeError(ours.at(name), weight, tolerance))
        << name;
}

std::vector<OuterOptions> Rules() {
  return {{},
          {.learning_rate = 0.7, .momentum = 0.9, .nesterov = true},
          {.learning_rate = 1.3, .momentum = 0.5, .clip = 0.02},
          {.overlap = true},
          {.learning_rate = 0.6, .momentum = 0.4, .overlap = true},
          {.learning_rate = 0.6, .momentum = 0.4, .nesterov = true, .clip = 0.03, .overlap = true}};
}

std::string Shown(const Rounds& run) {
  const OuterOptions& outer = run.outer;
  return absl::StrCat(run.groups, " groups of ", run.sp, ", stage ", run.stage, ", rounds of ",
                      run.local, ", a ", outer.learning_rate, ", b ", outer.momentum,
                      outer.nesterov ? ", nesterov" : "", ", clip ", outer.clip,
                      outer.overlap ? ", overlap" : "");
}

// All kinds of rounds; the last round is shorter.
TEST(OuterStepsTest, AreTheEquations) {
  for (const OuterOptions& outer : Rules()) {
    for (const Rounds& run :
         {Rounds{.outer = outer}, Rounds{.groups = 3, .local = 2, .outer = outer},
          Rounds{.sp = 2, .outer = outer}, Rounds{.sp = 2, .outer = outer, .stage = 1},
          Rounds{.sp = 2, .outer = outer, .stage = 3}, Rounds{.outer = outer, .sgd = true}}) {
      SCOPED_TRACE(Shown(run));
      ExpectSameTensors(TrainRounds(run).weights, Equations(run), 1e-12);
    }
  }
  ExpectSameTensors(TrainRounds({.sp = 2, .outer = Rules()[1], .stage = 2}).weights,
                    Equations({.outer = Rules()[1]}), 1e-12);
}

// Clipping has an effect in these tests, and so have momentum and staleness.
TEST(OuterStepsTest, RulesDiffer) {
  std::vector<Tensors> all;
  for (const OuterOptions& outer : Rules()) all.push_back(Equations({.outer = outer}));
  OuterOptions unclipped = Rules()[2];
  unclipped.clip = 0;
  all.push_back(Equations({.outer = unclipped}));
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(RelativeError(all[i].at("a.weight"), all[j].at("a.weight"), 1e-3)) << i << j;
  }
}

// With plain gradient descent, the average of all groups after one local step equals an ordinary
// step with the mean of their gradients.
TEST(OuterStepsTest, OneStepAveragedIsTheOrdinaryStep) {
  for (const int sp : {1, 2}) {
    const Rounds run{.sp = sp, .steps = 1, .local = 1, .sgd = true};
    Tensors ordinary;
    std::mutex mutex;
    RunRanks(run.groups * sp, [&](std::shared_ptr<comm::World> world) {
      Rank rank;
      ASSERT_NO_FATAL_FAILURE(Open(run, world, /*apart=*/false, rank));
      AddGradients(run, rank, 0);
      ASSERT_OK(rank.states->SumGradients());
      for (const auto& shard : rank.states->shards()) shard->mutable_gradient().div_(run.groups);
      rank.optimizer->Step(kRate);
      ASSERT_OK(rank.states->Publish());
      const std::lock_guard<std::mutex> lock(mutex);
      for (const auto& parameter : rank.parameters)
        ordinary[parameter->name()] = parameter->Lease(at::kDouble).clone();
    });
    ExpectSameTensors(TrainRounds(run).weights, ordinary, 1e-12);
  }
}

// Interrupted in the middle of a round, with or without differences being sent, and at the end of a
// round, the run resumes bit-identically.
TEST(OuterStepsTest, ResumeBitForBit) {
  for (const OuterOptions& outer : Rules()) {
    for (const Rounds& run : {Rounds{.outer = outer}, Rounds{.sp = 2, .outer = outer, .stage = 2},
                              Rounds{.outer = outer, .weights = at::kFloat},
                              Rounds{.outer = outer, .weights = at::kBFloat16}}) {
      SCOPED_TRACE(Shown(run));
      const Tensors whole = TrainRounds(run).weights;
      for (const int at : {2, 6, 8}) {
        const RoundsOutcome first = TrainRounds(run, at);
        EXPECT_EQ(first.saved.inner, at % 4);
        ExpectSameTensors(first.weights, whole, 0);
        ExpectSameTensors(TrainRounds(run, -1, &first.saved, at).weights, whole, 0);
      }
    }
  }
}

// With other shards, sums of gradients have another order.
TEST(OuterStepsTest, ResumeOnOtherShards) {
  const Rounds one{.outer = Rules()[5]}, two{.sp = 2, .outer = Rules()[5], .stage = 1};
  const Tensors whole = TrainRounds(one).weights;
  for (const auto& [from, to] : {std::pair(one, two), std::pair(two, one)}) {
    const RoundsOutcome first = TrainRounds(from, 6);
    ExpectSameTensors(TrainRounds(to, -1, &first.saved, 6).weights, whole, 1e-12);
  }
}

// A bf16 weight differs from the synchronized weight only by its rounding, which does not
// accumulate over rounds.
TEST(OuterStepsTest, AFrozenWeightKeepsItsSynchronizationPoint) {
  RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    Rank rank;
    const Rounds run{.outer = {.learning_rate = 0.7, .momentum = 0.9}, .weights = at::kBFloat16};
    ASSERT_NO_FATAL_FAILURE(Open(run, world, /*apart=*/true, rank));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<OuterSteps> outer,
                         OuterSteps::Create(run.outer, *rank.mesh, rank.states));
    at::Tensor& weight = rank.states->shards()[0]->weight();
    weight.add_(0.25 * (1 + rank.mesh->dp_rank()));
    ASSERT_OK(outer->EndRound());
    ASSERT_OK_AND_ASSIGN(StateTensors saved, outer->Save());
    const at::Tensor before = saved.at("outer_momentum/a.weight").clone();
    EXPECT_GT(before.abs().min().item<double>(), 0.3);
    ASSERT_OK(outer->EndRound());
    EXPECT_TRUE(BitEqual(saved.at("outer_momentum/a.weight"), before.mul(0.9)));
  });
}

TEST(OuterStepsTest, ShowsTheSynchronizationPoint) {
  RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    Rank rank;
    const Rounds run{.weights = at::kFloat};
    ASSERT_NO_FATAL_FAILURE(Open(run, world, /*apart=*/true, rank));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<OuterSteps> outer,
                         OuterSteps::Create(run.outer, *rank.mesh, rank.states));
    at::Tensor& weight = rank.states->shards()[0]->weight();
    const at::Tensor common = weight.clone();
    weight.add_(0.5 + world->rank());
    const at::Tensor own = weight.clone();
    const int64_t bytes = outer->state_bytes();
    EXPECT_EQ(bytes, 4 * (35 + 11));
    EXPECT_TRUE(outer->ShowCommon(true));
    EXPECT_FALSE(outer->ShowCommon(true));
    EXPECT_TRUE(BitEqual(weight, common));
    EXPECT_ANY_THROW(outer->EndRound().IgnoreError());
    EXPECT_TRUE(outer->ShowCommon(false));
    EXPECT_FALSE(outer->ShowCommon(false));
    EXPECT_TRUE(BitEqual(weight, own));
    EXPECT_EQ(outer->state_bytes(), bytes);
    ASSERT_OK(outer->EndRound());
    EXPECT_TRUE(RelativeError(weight, common + 1.0, 1e-6));  // the mean of 0.5 and 1.5
  });
}

// For n numbers, k steps send 2 (G - 1) / G n between G groups, as much as one reduction of
// gradients; a group's gradients are sent only within the group.
TEST(OuterStepsTest, ARoundSendsWhatOneSumOfGradientsSends) {
  for (const bool overlap : {false, true}) {
    const RoundsOutcome outcome =
        TrainRounds({.groups = 3, .steps = 12, .outer = {.overlap = overlap}});
    constexpr int64_t kNumbers = 35 + 11, kSum = 2 * 2 * kNumbers * 8 / 3;
    for (int step = 0; step < 12; ++step)
      EXPECT_EQ(outcome.outer_bytes[step], (step + 1) / 4 * kSum) << step;
  }
  RunRanks(3, [&](std::shared_ptr<comm::World> world) {
    for (const bool apart : {false, true}) {
      Rank rank;
      ASSERT_NO_FATAL_FAILURE(Open({.groups = 3}, world, apart, rank));
      const auto sent = [&] {
        return world->communicator()->counters().bytes_sent +
               rank.mesh->dp().counters().bytes_sent + rank.mesh->sp_group()->counters().bytes_sent;
      };
      const int64_t before = sent();
      AddGradients({}, rank, 0);
      ASSERT_OK(rank.states->SumGradients());
      // In addition, a flag for each parameter that has a gradient.
      constexpr int64_t kSum = 2 * 2 * (35 + 11) * 8 / 3, kMarks = 2 * 2 * 2 * 8 / 3;
      EXPECT_EQ(sent() - before, apart ? 0 : kSum + kMarks);
    }
  });
}

TEST(OuterStepsTest, RefusesInvalidInput) {
  RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    Rank rank;
    ASSERT_NO_FATAL_FAILURE(Open({}, world, /*apart=*/true, rank));
    const auto refused = [&](OuterOptions outer, const std::string& why) {
      EXPECT_THAT(OuterSteps::Create(outer, *rank.mesh, rank.states).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
    };
    refused({.learning_rate = 0}, "outer_learning_rate: expected more than 0, got 0");
    refused({.momentum = 1}, "outer_momentum: expected 0 or more and less than 1, got 1");
    refused({.clip = -1}, "outer_momentum_clip: expected 0 or more, got -1");
    EXPECT_THAT(Zero::Create({.stage = 1, .apart = true}, *rank.mesh).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("zero_group: expected sp")));
    EXPECT_THAT(Zero::Create({.expert_ranks = 2, .apart = true}, *rank.mesh).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expert_parallel_size: expected 1")));
    Rank together;
    ASSERT_NO_FATAL_FAILURE(Open({}, world, /*apart=*/false, together));
    EXPECT_ANY_THROW(OuterSteps::Create({}, *together.mesh, together.states).IgnoreError());
  });
  const RoundsOutcome first = TrainRounds({.outer = {.overlap = true}}, 6);
  RunRanks(2, [&](std::shared_ptr<comm::World> world) {
    Rank rank;
    ASSERT_NO_FATAL_FAILURE(Open({}, world, /*apart=*/true, rank));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<OuterSteps> outer,
                         OuterSteps::Create({}, *rank.mesh, rank.states));
    EXPECT_THAT(outer->Load(first.saved.outer),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("outer_overlap")));
    std::vector<StateTensors> wrong = first.saved.outer;
    for (const char* name : {"a.weight", "b.weight"})
      wrong[0].erase(std::string("outer_difference/") + name);
    wrong[0].erase("outer/b.weight");
    EXPECT_THAT(outer->Load(wrong), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("outer/b.weight is missing")));
  });
}

}  // namespace
}  // namespace moonring::trainer
