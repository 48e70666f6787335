// Training a mixture of experts whose experts are distributed over ranks equals training with all
// experts on each rank: norms, gradients and weights after some steps, with every stage of ZeRO.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/bin_exchange.h"
#include "comm/mesh.h"
#include "model/checkpoint/checkpoint.h"
#include "model/transformer.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"
#include "trainer/checkpoint/saved_states.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/sgd.h"
#include "trainer/sharding/gradients.h"
#include "trainer/sharding/states.h"
#include "trainer/sharding/zero.h"

namespace moonring::trainer {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::MaskedAttention;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int kExpertSteps = 3, kExpertMicroBatches = 2;
constexpr double kBound = 1.0, kSame = 1e-10;

struct ExpertTraining {
  std::string family;
  int ranks = 4, stage = 0, expert_ranks = 1;
  bool sgd = false;
  int steps = kExpertSteps;
  const std::vector<StateTensors>* from = nullptr;  // what is loaded before the first step
};

struct ExpertOutcome {
  std::vector<double> norms;
  std::vector<std::vector<double>> norms_of_each;
  std::map<std::string, at::Tensor> gradients;  // of the last step, whole
  std::map<std::string, at::Tensor> weights;    // whole
  std::vector<int64_t> held;                    // bytes of weights, by rank
  std::vector<StateTensors> saved;              // by the ranks that part the states
};

// Runs forward and backward on a rank's own tokens; the third rank has none.
void ExpertBackward(model::Transformer& model, int rank, int step, int micro) {
  const int64_t tokens = rank == 2 ? 0 : 3 + (rank + step + micro) % 5;
  const at::Tensor ids =
      (at::arange(tokens, at::kLong) * (3 + rank) + 5 * step + 7 * micro + rank) % 13;
  model::ForwardOptions options;
  options.lengths_T = at::full({tokens}, tokens, at::kLong);
  const at::Tensor hidden =
      model
          .Forward(ids, at::arange(tokens, at::kLong),
                   std::make_shared<MaskedAttention>(std::vector<int64_t>{tokens}), options)
          .hidden_TD;
  const at::Tensor head = model.head()->Lease(at::kDouble).detach().requires_grad_();
  const at::Tensor loss = at::linear(hidden, head).pow(2).sum() * 0.01 + hidden.sum();
  loss.backward();
  model.head()->TakeGradient(head.grad());
}

ExpertOutcome TrainExperts(const ExpertTraining& run) {
  ExpertOutcome outcome;
  outcome.held.resize(run.ranks);
  std::mutex mutex;
  RunRanks(run.ranks, [&](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(const auto mesh, comm::Mesh::Create(world, 1));
    ASSERT_OK_AND_ASSIGN(
        const auto zero,
        Zero::Create({.stage = run.stage, .expert_ranks = run.expert_ranks}, *mesh));
    ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                         model::Checkpoint::Open("tests/golden/families/" + run.family));
    model::TransformerOptions options{.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble};
    const int64_t count = checkpoint->config().experts.count;
    if (run.expert_ranks > 1)
      options.expert_ranks = std::make_shared<comm::BinExchange>(
          zero->experts(), comm::BinParts(count, run.expert_ranks));
    options.on_load = [&](base::Parameter& parameter) {
      zero->Part(parameter);
      return absl::OkStatus();
    };
    ASSERT_OK_AND_ASSIGN(const auto model, model::Transformer::Load(checkpoint, options));
    ASSERT_OK_AND_ASSIGN(const auto states,
                         States::Create(zero, model->parameters(), std::nullopt));
    std::unique_ptr<Optimizer> optimizer;
    if (run.sgd) {
      ASSERT_OK_AND_ASSIGN(optimizer, Sgd::Create({}, states->shards()));
    } else {
      ASSERT_OK_AND_ASSIGN(optimizer, AdamW::Create({.weight_decay = 0.1}, states->shards()));
    }
    if (run.from != nullptr) {
      ASSERT_OK(LoadStates(*states, *optimizer, *run.from));
      ASSERT_OK(states->Publish());
    }
    std::vector<double> norms;
    std::vector<std::vector<double>> of_each;
    std::map<std::string, at::Tensor> gradients, weights;
    for (int step = 0; step < run.steps; ++step) {
      states->ClearGradients();
      for (int micro = 0; micro < kExpertMicroBatches; ++micro)
        ExpertBackward(*model, world->rank(), step, micro);
      ASSERT_OK(states->SumGradients());
      ASSERT_OK_AND_ASSIGN(const double norm, states->Norm());
      ASSERT_OK_AND_ASSIGN(const std::vector<double> each, states->Norms());
      norms.push_back(norm);
      of_each.push_back(each);
      ClipByNorm(states->shards(), norm, kBound);
      if (step + 1 == run.steps) {
        for (const auto& shard : states->shards()) {
          ASSERT_OK_AND_ASSIGN(const at::Tensor gradient, states->Gradient(shard->name()));
          if (gradient.defined()) gradients[shard->name()] = gradient.clone();
        }
      }
      optimizer->Step(run.sgd ? 0.1 : 1e-3);
      ASSERT_OK(states->Publish());
    }
    int64_t held = 0;
    for (const auto& parameter : model->parameters()) {
      weights[parameter->name()] = parameter->LeaseWhole(at::kDouble).clone();
      if (!parameter->away()) held += static_cast<int64_t>(parameter->weight().nbytes());
    }
    ASSERT_OK_AND_ASSIGN(const StateTensors saved, SaveStates(*states, *optimizer));
    const std::lock_guard<std::mutex> lock(mutex);
    outcome.saved.resize(zero->shards()->size());
    for (const auto& [key, tensor] : saved)
      outcome.saved[zero->shards()->rank()][key] = tensor.clone();
    outcome.held[world->rank()] = held;
    if (outcome.weights.empty()) {
      outcome.norms = norms, outcome.norms_of_each = of_each;
      outcome.gradients = gradients, outcome.weights = weights;
      return;
    }
    EXPECT_EQ(outcome.norms, norms);
    for (const auto& [name, weight] : weights)
      EXPECT_TRUE(BitEqual(weight, outcome.weights.at(name))) << name;
  });
  return outcome;
}

void ExpectSameExperts(const ExpertOutcome& ours, const ExpertOutcome& plain) {
  ASSERT_EQ(ours.norms.size(), plain.norms.size());
  for (size_t step = 0; step < plain.norms.size(); ++step) {
    EXPECT_GT(plain.norms[step], kBound) << "clipping must bite";
    EXPECT_NEAR(ours.norms[step], plain.norms[step], kSame * plain.norms[step]);
    ASSERT_EQ(ours.norms_of_each[step].size(), plain.norms_of_each[step].size());
    for (size_t i = 0; i < plain.norms_of_each[step].size(); ++i)
      EXPECT_NEAR(ours.norms_of_each[step][i], plain.norms_of_each[step][i],
                  kSame * plain.norms[step])
          << i;
  }
  for (const auto& [name, gradient] : plain.gradients) {
    const auto found = ours.gradients.find(name);
    ASSERT_TRUE(found != ours.gradients.end()) << name;
    EXPECT_TRUE(RelativeError(found->second, gradient, kSame)) << name;
  }
  for (const auto& [name, weight] : plain.weights)
    EXPECT_TRUE(RelativeError(ours.weights.at(name), weight, kSame)) << name;
}

// Parameters: a family, the number of ranks that share the experts, and the stage of ZeRO.
class ExpertTrainingTest : public ::testing::TestWithParam<std::tuple<const char*, int, int>> {};

TEST_P(ExpertTrainingTest, IsThatOfAllExpertsOnEachRank) {
  const auto& [family, expert_ranks, stage] = GetParam();
  const ExpertOutcome plain = TrainExperts({.family = family, .sgd = true});
  const ExpertOutcome ours =
      TrainExperts({.family = family, .stage = stage, .expert_ranks = expert_ranks, .sgd = true});
  ExpectSameExperts(ours, plain);
  if (stage == 0) {
    EXPECT_LT(ours.held[0], plain.held[0]);
  }
}

std::string NameOfTraining(
    const ::testing::TestParamInfo<std::tuple<const char*, int, int>>& info) {
  const auto& [family, expert_ranks, stage] = info.param;
  return std::string(family) + "_on_" + std::to_string(expert_ranks) + "_zero" +
         std::to_string(stage);
}

INSTANTIATE_TEST_SUITE_P(All, ExpertTrainingTest,
                         ::testing::Combine(::testing::Values("qwen3_moe", "gpt_oss", "glm4_moe"),
                                            ::testing::Values(2, 4), ::testing::Values(0, 1, 2, 3)),
                         NameOfTraining);

TEST(ExpertRanksTest, AdamW) {
  // Adam amplifies the rounding of a gradient near zero, so only norms and gradients are compared.
  ExpertOutcome plain = TrainExperts({.family = "gpt_oss"});
  plain.weights.clear();
  ExpectSameExperts(TrainExperts({.family = "gpt_oss", .expert_ranks = 2}), plain);
}

// Joins the shards of each tensor.
StateTensors JoinedParts(const std::vector<StateTensors>& saved) {
  std::map<std::string, std::vector<at::Tensor>> parts;
  for (const StateTensors& of_rank : saved) {
    for (const auto& [key, tensor] : of_rank) {
      if (tensor.dim() > 0 || parts[key].empty()) parts[key].push_back(tensor);
    }
  }
  StateTensors joined;
  for (const auto& [key, tensors] : parts)
    joined[key] = tensors[0].dim() > 0 ? at::cat(tensors) : tensors[0];
  return joined;
}

// States are saved as whole tensors, for separate and for stacked experts, so that the experts can
// be distributed over another number of ranks later.
TEST(ExpertRanksTest, StatesResumeOnOtherExpertRanks) {
  for (const char* family : {"qwen3_moe", "gpt_oss"}) {
    const ExpertOutcome kept = TrainExperts({.family = family, .expert_ranks = 2});
    const StateTensors states = JoinedParts(kept.saved);
    for (const int expert_ranks : {1, 2, 4}) {
      for (const int stage : {0, 2}) {
        SCOPED_TRACE(::testing::Message() << family << ", then experts of " << expert_ranks
                                          << " ranks, stage " << stage);
        const ExpertOutcome again = TrainExperts({.family = family,
                                                  .stage = stage,
                                                  .expert_ranks = expert_ranks,
                                                  .steps = 0,
                                                  .from = &kept.saved});
        for (const auto& [name, weight] : kept.weights)
          EXPECT_TRUE(BitEqual(again.weights.at(name), weight)) << name;
        const StateTensors found = JoinedParts(again.saved);
        ASSERT_EQ(found.size(), states.size());
        for (const auto& [key, tensor] : states)
          EXPECT_TRUE(BitEqual(found.at(key), tensor)) << key;
      }
    }
  }
}

TEST(ExpertRanksTest, RefusesWhatDoesNotFit) {
  RunRanks(2, [](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(const auto mesh, comm::Mesh::Create(world, 1));
    EXPECT_THAT(
        Zero::Create({.expert_ranks = 3}, *mesh),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("expert_parallel_size: expected a divisor of the 2 ranks, got 3")));
    EXPECT_THAT(Zero::Create({.offload = Offload::kHost, .expert_ranks = 2}, *mesh),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expected 1 with offload_optimizer")));
  });
}

}  // namespace
}  // namespace moonring::trainer
