#include "tests/trainer/rules/rule_check.h"

#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/mesh.h"
#include "nlohmann/json.hpp"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"
#include "trainer/checkpoint/saved_states.h"
#include "trainer/optimizer/rule_optimizer.h"
#include "trainer/sharding/states.h"
#include "trainer/sharding/zero.h"

namespace moonring::testing {
namespace {

using base::Parameter;

constexpr int kSteps = 20, kHalf = 9;

at::Tensor Chirp(const std::vector<int64_t>& shape, double factor, double phase,
                 at::ScalarType dtype) {
  const at::Tensor place = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (place * place * factor + phase).sin().reshape(shape).to(dtype);
}

base::Parameters Weights(at::ScalarType dtype, bool matrices) {
  std::vector<std::pair<const char*, std::vector<int64_t>>> shapes = {
      {"model.layers.0.mlp.up_proj.weight", {12, 7}},
      {"model.layers.0.mlp.down_proj.weight", {5, 16}},
      {"model.norm.weight", {7}}};
  if (matrices) {
    shapes.push_back({"model.embed_tokens.weight", {9, 8}});
    shapes.push_back({"model.layers.0.self_attn.q_proj.weight", {8, 8}});
    shapes.push_back({"model.layers.0.self_attn.q_proj.bias", {8}});
    shapes.push_back({"model.layers.0.self_attn.k_proj.weight", {4, 8}});
    shapes.push_back({"model.layers.0.mlp.experts.down_proj", {3, 5, 4}});
    shapes.push_back({"lm_head.weight", {9, 8}});
  }
  base::Parameters parameters;
  for (const auto& [name, shape] : shapes) {
    const double number = static_cast<double>(parameters.size());
    parameters.push_back(std::make_shared<Parameter>(name, Chirp(shape, 0.37, number, dtype)));
  }
  return parameters;
}

struct Kind {
  int ranks = 1, stage = 0;
  at::ScalarType dtype = at::kFloat;
  bool average = false;   // at the end
  bool matrices = false;  // RuleBounds::matrices
};

struct Outcome {
  std::map<std::string, at::Tensor> weights;
  std::vector<trainer::StateTensors> saved;  // by rank of the group that parts
  std::vector<int64_t> state_bytes;          // by rank
  int64_t predicted = 0;
};

Outcome Train(const RuleMaker& make, const Kind& kind, int from, int to,
              const std::vector<trainer::StateTensors>* saved = nullptr) {
  Outcome outcome;
  std::mutex mutex;
  RunRanks(kind.ranks, [&](std::shared_ptr<comm::World> world) {
    auto mesh = comm::Mesh::Create(world, 1);
    ASSERT_OK(mesh);
    auto zero = trainer::Zero::Create({.stage = kind.stage}, **mesh);
    ASSERT_OK(zero);
    const base::Parameters parameters = Weights(kind.dtype, kind.matrices);
    auto states = trainer::States::Create(*zero, parameters, std::nullopt);
    ASSERT_OK(states);
    auto rule = make((*states)->shards());
    ASSERT_OK(rule);
    auto optimizer = trainer::RuleOptimizer::Create(
        rule->rule, {.whole = rule->whole, .shards = (*zero)->shards()}, (*states)->shards());
    ASSERT_OK(optimizer);
    if (saved != nullptr) {
      ASSERT_OK(trainer::LoadStates(**states, **optimizer, *saved));
      ASSERT_OK((*states)->Publish());
    }
    for (int step = from; step < to; ++step) {
      (*states)->ClearGradients();
      for (size_t i = 0; world->rank() == 0 && i < parameters.size(); ++i) {
        parameters[i]->AddGradient(Chirp(parameters[i]->shape().vec(), 0.61,
                                         1.3 * step + 0.5 * static_cast<double>(i), kind.dtype));
      }
      // All other ranks add gradients of zero, so that every rank has the same number of gradients.
      for (size_t i = 0; world->rank() != 0 && i < parameters.size(); ++i)
        parameters[i]->AddGradient(at::zeros(parameters[i]->shape(), kind.dtype));
      ASSERT_OK((*states)->SumGradients());
      (*optimizer)->Step(1e-2 * (1.0 - step / 40.0));
      ASSERT_OK((*states)->Publish());
    }
    if (kind.average) {
      EXPECT_TRUE((*optimizer)->Average(true));
      EXPECT_FALSE((*optimizer)->Average(true)) << "it is there already";
      ASSERT_OK((*states)->Publish());
    }
    std::map<std::string, at::Tensor> weights;
    for (const auto& parameter : parameters)  // a lease may be a call of all ranks
      weights[parameter->name()] = parameter->Lease(kind.dtype).clone();
    ASSERT_OK_AND_ASSIGN(const trainer::StateTensors mine,
                         trainer::SaveStates(**states, **optimizer));
    const std::lock_guard<std::mutex> lock(mutex);
    outcome.saved.resize((*zero)->shards()->size());
    for (const auto& [key, tensor] : mine)
      outcome.saved[(*zero)->shards()->rank()][key] = tensor.clone();
    outcome.state_bytes.resize(kind.ranks);
    outcome.state_bytes[world->rank()] = (*optimizer)->state_bytes();
    if (world->rank() == 0) outcome.weights = std::move(weights);
    outcome.predicted = (*optimizer)->NewStateBytes();
  });
  return outcome;
}

void ExpectWeights(const Outcome& found, const std::map<std::string, at::Tensor>& wanted,
                   double bound) {
  ASSERT_EQ(found.weights.size(), wanted.size());
  for (const auto& [name, weight] : wanted) {
    const at::Tensor& mine = found.weights.at(name);
    EXPECT_TRUE(bound == 0.0 ? BitEqual(mine, weight) : RelativeError(mine, weight, bound)) << name;
  }
}

std::map<std::string, at::Tensor> Golden(const std::string& file, const std::string& name,
                                         at::ScalarType dtype, bool matrices) {
  std::ifstream stream("tests/trainer/rules/golden/" + file);
  const nlohmann::json golden =
      nlohmann::json::parse(stream).at(name).at(dtype == at::kDouble ? "float64" : "float32");
  std::map<std::string, at::Tensor> weights;
  for (const auto& parameter : Weights(dtype, matrices)) {
    weights[parameter->name()] =
        at::tensor(golden.at(parameter->name()).get<std::vector<double>>(), at::kDouble)
            .to(dtype)
            .reshape(parameter->shape());
  }
  return weights;
}

}  // namespace

void CheckRule(const std::string& file, const std::string& name, const RuleMaker& make,
               const RuleBounds& bounds) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    SCOPED_TRACE(::testing::Message() << name << " in " << dtype);
    const Outcome plain = Train(make, {.dtype = dtype, .matrices = bounds.matrices}, 0, kSteps);
    ExpectWeights(plain, Golden(file, name, dtype, bounds.matrices),
                  dtype == at::kDouble ? bounds.fp64 : bounds.fp32);
    EXPECT_EQ(plain.state_bytes[0], plain.predicted);
    if (bounds.averages) {
      ExpectWeights(Train(make, {.dtype = dtype, .average = true}, 0, kSteps),
                    Golden(file, name + "_average", dtype, bounds.matrices),
                    dtype == at::kDouble ? bounds.fp64 : bounds.fp32);
    }
    const Kind kind{.dtype = dtype, .matrices = bounds.matrices};
    const Outcome half = Train(make, kind, 0, kHalf);
    ExpectWeights(Train(make, kind, kHalf, kSteps, &half.saved), plain.weights, 0.0);
  }
  if (bounds.golden_alone) return;
  const Outcome plain = Train(make, {.matrices = bounds.matrices}, 0, kSteps);
  const int64_t count = static_cast<int64_t>(plain.weights.size());
  for (Kind kind : std::vector<Kind>{{.ranks = 2, .stage = 0},
                                     {.ranks = 2, .stage = 1},
                                     {.ranks = 2, .stage = 2},
                                     {.ranks = 3, .stage = 3, .average = bounds.averages}}) {
    kind.matrices = bounds.matrices;
    SCOPED_TRACE(::testing::Message()
                 << name << " over " << kind.ranks << " ranks, stage " << kind.stage);
    const Outcome found = Train(make, kind, 0, kSteps);
    ExpectWeights(
        found,
        kind.average ? Golden(file, name + "_average", at::kFloat, bounds.matrices) : plain.weights,
        kind.average ? bounds.fp32 : bounds.ranks);
    // A sharded state is stored once in total, except numbers that every rank has, such as the step
    // count.
    const int64_t all =
        std::accumulate(found.state_bytes.begin(), found.state_bytes.end(), int64_t{0});
    const int64_t least = plain.predicted * (kind.stage == 0 ? kind.ranks : 1);
    EXPECT_GE(all, least);
    EXPECT_LE(all, least + count * 32 * (kind.ranks - 1));
    if (kind.stage != 2) continue;
    const Outcome half = Train(make, kind, 0, kHalf);
    ExpectWeights(Train(make, kind, kHalf, kSteps, &half.saved), found.weights, 0.0);
  }
}

}  // namespace moonring::testing
