// ZeRO equals plain data parallelism, on ranks that are threads: the weights after five steps; and
// the bytes sent and the memory of a rank are those expected.

#include "trainer/sharding/zero.h"

#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "objectives/log_prob.h"
#include "tests/model/adapted_models.h"
#include "tests/testing/all_close.h"
#include "tests/testing/live_bytes.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/lora_plus.h"
#include "trainer/optimizer/sgd.h"
#include "trainer/sharding/gradients.h"
#include "trainer/sharding/states.h"
#include "trainer/sharding/zero_cost.h"

namespace moonring::trainer {
namespace {

using base::Parameters;
using ::moonring::testing::BitEqual;
using ::moonring::testing::LiveBytes;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunRanks;
using ::testing::HasSubstr;

constexpr int kSteps = 5, kMicroBatches = 2;

struct Training {
  int ranks = 4, sp = 1;
  ZeroOptions zero;
  at::ScalarType weights = at::kDouble, matmuls = at::kDouble;
  std::optional<at::ScalarType> held;
  bool tied = true, sgd = false;
  model::Recompute recompute = model::Recompute::kBlock;
  std::set<std::string> frozen;
  int64_t layers = 2;
};

// Tensors of rank 0 at the end; all other ranks must have the same.
struct Outcome {
  std::map<std::string, at::Tensor> weights, gradients;
  std::vector<double> norms;
  std::vector<int64_t> bytes_sent;  // in the last step, by rank of the group that parts
};

Parameters Copies(const Parameters& parameters) {
  Parameters copies;
  for (const auto& each : parameters)
    copies.push_back(
        std::make_shared<base::Parameter>(each->name(), each->weight().clone(), each->trainable()));
  return copies;
}

at::Tensor Ids(int rank, int step, int micro, int64_t tokens) {
  return (at::arange(tokens, at::kLong) * (3 + rank) + 5 * step + 7 * micro + rank) % 13;
}

// Runs forward and backward on a rank's own tokens, through the embedding and the head.
void Backward(model::Transformer& model, int rank, int step, int micro, at::ScalarType matmuls) {
  const int64_t tokens = 3 + (rank + step + micro) % 3;
  const at::Tensor ids = Ids(rank, step, micro, tokens),
                   targets = Ids(rank, step, micro + 1, tokens);
  const auto attention =
      std::make_shared<moonring::testing::MaskedAttention>(std::vector<int64_t>{tokens});
  const at::Tensor hidden = model.Forward(ids, at::arange(tokens, at::kLong), attention).hidden_TD;
  const at::Tensor log_prob =
      objectives::TokenLogProb(hidden, model.head(), targets, {.matmul_dtype = matmuls});
  (hidden.pow(2).sum() * 0.01 - log_prob.sum()).backward();
}

std::unique_ptr<Optimizer> MakeOptimizer(const Training& run, const Zero& zero,
                                         const Parameters& shards) {
  if (run.sgd) return *Sgd::Create({}, shards);
  auto adamw = AdamW::Create({.weight_decay = 0.1, .memory = zero.memory()}, shards);
  EXPECT_OK(adamw);
  return *std::move(adamw);
}

Outcome Train(const Training& run) {
  const model::ModelConfig config = model::SmallConfig(run.tied, run.layers);
  const Parameters first = model::RandomWeights(config, run.weights);
  for (const auto& parameter : first)
    parameter->set_trainable(!run.frozen.contains(parameter->name()));
  Outcome outcome;
  outcome.bytes_sent.resize(run.ranks);
  std::mutex mutex;
  RunRanks(run.ranks, [&](std::shared_ptr<comm::World> world) {
    auto mesh = comm::Mesh::Create(world, run.sp);
    ASSERT_OK(mesh);
    auto zero = Zero::Create(run.zero, **mesh);
    ASSERT_OK(zero);
    const Parameters parameters = Copies(first);
    for (const auto& parameter : parameters) (*zero)->Part(*parameter);
    auto model = model::Transformer::Create(
        config, parameters,
        {.weight_dtype = run.weights, .matmul_dtype = run.matmuls, .recompute = run.recompute});
    ASSERT_OK(model);
    for (size_t i = 0; i < first.size(); ++i) parameters[i]->set_trainable(first[i]->trainable());
    auto states = States::Create(*zero, parameters, run.held);
    ASSERT_OK(states);
    const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(run, **zero, (*states)->shards());
    std::vector<double> norms;
    int64_t sent = 0;
    for (int step = 0; step < kSteps; ++step) {
      (*states)->ClearGradients();
      const int64_t before = (*zero)->shards()->counters().bytes_sent;
      for (int micro = 0; micro < kMicroBatches; ++micro)
        Backward(**model, world->rank(), step, micro, run.matmuls);
      ASSERT_OK((*states)->SumGradients());
      auto norm = (*states)->Norm();
      ASSERT_OK(norm);
      norms.push_back(*norm);
      ClipByNorm((*states)->shards(), *norm, 2.0);
      optimizer->Step(run.sgd ? 0.1 : 1e-3);
      ASSERT_OK((*states)->Publish());
      sent = (*zero)->shards()->counters().bytes_sent - before;
    }
    std::map<std::string, at::Tensor> weights, gradients;
    for (const auto& parameter : parameters) {
      weights[parameter->name()] = parameter->Lease(run.weights).clone();
      if (parameter->trainable()) gradients[parameter->name()] = parameter->WholeGradient().clone();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    outcome.bytes_sent[world->rank()] = sent;
    if (outcome.weights.empty()) {
      outcome.weights = weights, outcome.gradients = gradients, outcome.norms = norms;
      return;
    }
    EXPECT_EQ(outcome.norms, norms);
    for (const auto& [name, weight] : weights)
      EXPECT_TRUE(BitEqual(weight, outcome.weights.at(name))) << name;
  });
  return outcome;
}

void ExpectSame(const Outcome& ours, const Outcome& plain, double tolerance) {
  ASSERT_EQ(ours.weights.size(), plain.weights.size());
  ASSERT_EQ(ours.norms.size(), plain.norms.size());
  for (size_t step = 0; step < plain.norms.size(); ++step)
    EXPECT_NEAR(ours.norms[step], plain.norms[step], tolerance * plain.norms[step]) << step;
  for (const auto& [name, weight] : plain.weights)
    EXPECT_TRUE(RelativeError(ours.weights.at(name), weight, tolerance)) << name;
  for (const auto& [name, gradient] : plain.gradients)
    EXPECT_TRUE(RelativeError(ours.gradients.at(name), gradient, 10 * tolerance)) << name;
}

std::string TempFolder() { return ::testing::TempDir(); }

// Every stage, sharded over every kind of group, with numbers of ranks that divide the weights and
// others, in fp64: the difference is the rounding of another order of sums.
TEST(ZeroTest, EveryStageIsPlainDataParallelism) {
  for (const int ranks : {1, 3, 4}) {
    const Outcome plain = Train({.ranks = ranks});
    ASSERT_EQ(plain.norms.size(), kSteps);
    for (const double norm : plain.norms) EXPECT_GT(norm, 2.0) << "clipping must bite";
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, stage " << stage);
      ExpectSame(Train({.ranks = ranks, .zero = {.stage = stage}}), plain, 1e-12);
    }
  }
}

TEST(ZeroTest, SubgroupsAreReplicas) {
  const Outcome plain = Train({.ranks = 4});
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    ExpectSame(Train({.ranks = 4, .sp = 2, .zero = {.stage = stage, .group = ZeroGroup::kSp}}),
               plain, 1e-12);
    ExpectSame(Train({.ranks = 4,
                      .sp = 4,
                      .zero = {.stage = stage, .group = ZeroGroup::kNode, .ranks_per_machine = 2}}),
               plain, 1e-12);
    ExpectSame(Train({.ranks = 4, .zero = {.stage = stage, .group = ZeroGroup::kSp}}), plain,
               1e-12);  // of one rank each
  }
}

// Small buckets, which split some gradients and join others; frozen and untied weights, and weights
// kept by graphs; plain gradient descent, which reveals a wrong factor.
TEST(ZeroTest, OfEveryKindOfModel) {
  const std::set<std::string> frozen = {"model.layers.0.self_attn.q_proj.weight",
                                        "model.layers.1.mlp.up_proj.weight"};
  for (const int stage : {1, 2, 3}) {
    for (const int64_t bucket : {100, 4096}) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", buckets of " << bucket);
      const ZeroOptions zero{.stage = stage, .bucket_bytes = bucket};
      ExpectSame(Train({.ranks = 3, .zero = zero, .sgd = true}), Train({.ranks = 3, .sgd = true}),
                 1e-12);
    }
    SCOPED_TRACE(stage);
    const ZeroOptions zero{.stage = stage};
    ExpectSame(Train({.ranks = 2, .zero = zero, .tied = false, .frozen = frozen}),
               Train({.ranks = 2, .tied = false, .frozen = frozen}), 1e-12);
    for (const model::Recompute recompute :
         {model::Recompute::kNone, model::Recompute::kSelective}) {
      ExpectSame(Train({.ranks = 2, .zero = zero, .recompute = recompute}),
                 Train({.ranks = 2, .recompute = recompute}), 1e-12);
    }
  }
}

// With bf16 matmuls, the bf16 weights that are stored and gathered equal fp32 weights cast to bf16.
// In fp32 the results agree within 1e-6.
TEST(ZeroTest, InOtherPrecisions) {
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const ZeroOptions zero{.stage = stage};
    ExpectSame(Train({.zero = zero, .weights = at::kFloat, .matmuls = at::kFloat}),
               Train({.weights = at::kFloat, .matmuls = at::kFloat}), 1e-6);
    const Training mixed{.ranks = 2,
                         .zero = zero,
                         .weights = at::kFloat,
                         .matmuls = at::kBFloat16,
                         .held = at::kBFloat16};
    const Training pure{
        .ranks = 2, .zero = zero, .weights = at::kBFloat16, .matmuls = at::kBFloat16};
    // On two ranks a sum has only one order, so results are bit-identical, except for the norm.
    ExpectSame(Train(mixed), Train({.ranks = 2, .weights = at::kFloat, .matmuls = at::kBFloat16}),
               1e-6);
    ExpectSame(Train(pure), Train({.ranks = 2, .weights = at::kBFloat16, .matmuls = at::kBFloat16}),
               1e-6);
  }
}

TEST(ZeroTest, StateOnTheHostAndOnADisk) {
  const Outcome plain = Train({.ranks = 2});
  const Training mixed{
      .ranks = 2, .weights = at::kFloat, .matmuls = at::kBFloat16, .held = at::kBFloat16};
  const Outcome plain_mixed = Train(mixed);
  for (const int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    ExpectSame(Train({.ranks = 2, .zero = {.stage = stage, .offload = Offload::kHost}}), plain,
               1e-12);
    ExpectSame(Train({.ranks = 2,
                      .zero = {.stage = stage, .offload = Offload::kDisk, .folder = TempFolder()}}),
               plain, 1e-12);
    Training on_disk = mixed;
    on_disk.zero = {.stage = stage, .offload = Offload::kDisk, .folder = TempFolder()};
    ExpectSame(Train(on_disk), plain_mixed, 1e-6);
  }
  for (const auto& entry : std::filesystem::directory_iterator(TempFolder()))
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr("optimizer_state")));
}

// A parameter that no rank uses in a step keeps its weight and state; one that a single rank uses
// is updated.
TEST(ZeroTest, OfWhatIsNotUsed) {
  for (const int stage : {0, 1, 2, 3}) {
    RunRanks(3, [&](std::shared_ptr<comm::World> world) {
      auto mesh = comm::Mesh::Create(world, 1);
      auto zero = Zero::Create({.stage = stage, .bucket_bytes = 8}, **mesh);
      auto idle = std::make_shared<base::Parameter>("idle", at::ones({5})),
           once = std::make_shared<base::Parameter>("once", at::ones({2, 2}));
      auto states = States::Create(*zero, {idle, once}, std::nullopt);
      ASSERT_OK(states);
      auto adamw = AdamW::Create({.weight_decay = 0.5}, (*states)->shards());
      idle->TakeGradient({});
      once->TakeGradient(world->rank() == 1 ? at::ones({2, 2}) : at::Tensor());
      ASSERT_OK((*states)->SumGradients());
      EXPECT_EQ(*(*states)->Norm(), 2.0);
      EXPECT_EQ(*(*states)->Norms(), (std::vector<double>{0.0, 2.0}));
      (*adamw)->Step(0.1);
      ASSERT_OK((*states)->Publish());
      EXPECT_TRUE(BitEqual(idle->Lease(at::kFloat), at::ones({5}))) << "stage " << stage;
      EXPECT_TRUE(once->Lease(at::kFloat).lt(0.9).all().item<bool>()) << "stage " << stage;
    });
  }
}

TEST(ZeroTest, NamesNonFiniteGradients) {
  for (const int stage : {0, 2, 3}) {
    RunRanks(3, [&](std::shared_ptr<comm::World> world) {
      auto mesh = comm::Mesh::Create(world, 1);
      auto zero = Zero::Create({.stage = stage}, **mesh);
      auto sound = std::make_shared<base::Parameter>("sound", at::ones({5})),
           broken = std::make_shared<base::Parameter>("broken", at::ones({7}));
      auto states = States::Create(*zero, {sound, broken}, std::nullopt);
      ASSERT_OK(states);
      at::Tensor gradient = at::ones({7});
      if (world->rank() == 2) gradient[0] = std::numeric_limits<float>::quiet_NaN();
      sound->TakeGradient(at::ones({5}));
      broken->TakeGradient(gradient);
      ASSERT_OK((*states)->SumGradients());
      EXPECT_TRUE(std::isnan(*(*states)->Norm()));
      EXPECT_EQ(*(*states)->NonFinite(), std::vector<std::string>{"broken"});
    });
  }
}

TEST(ZeroTest, RefusesWhatDoesNotFit) {
  RunRanks(3, [](std::shared_ptr<comm::World> world) {
    auto mesh = comm::Mesh::Create(world, 1);
    EXPECT_THAT(Zero::Create({.stage = 4}, **mesh).status().message(),
                HasSubstr("zero_stage: expected 0 to 3, got 4"));
    EXPECT_THAT(
        Zero::Create({.stage = 1, .group = ZeroGroup::kNode, .ranks_per_machine = 2}, **mesh)
            .status()
            .message(),
        HasSubstr("2 ranks of a machine do not divide world size 3"));
    EXPECT_THAT(
        Zero::Create({.stage = 1, .offload = Offload::kDisk, .folder = "/no/such/folder"}, **mesh)
            .status()
            .message(),
        HasSubstr("/no/such/folder"));
  });
}

// The learning rate and decay of a weight are chosen by its name and its whole shape, even if the
// rank has only a shard.
TEST(ZeroTest, AShardIsKnownByItsWholeWeight) {
  RunRanks(2, [](std::shared_ptr<comm::World> world) {
    auto mesh = comm::Mesh::Create(world, 1);
    auto zero = Zero::Create({.stage = 3}, **mesh);
    auto matrix = std::make_shared<base::Parameter>("m.lora_A.weight", at::ones({2, 3})),
         vector = std::make_shared<base::Parameter>("m.lora_magnitude_vector", at::ones({3}));
    auto states = States::Create(*zero, {matrix, vector}, std::nullopt);
    ASSERT_OK(states);
    const Parameters& shards = (*states)->shards();
    EXPECT_EQ(shards[0]->shape(), at::IntArrayRef({2, 3}));
    EXPECT_EQ(shards[0]->weight().sizes(), at::IntArrayRef({3}));
    EXPECT_EQ(shards[1]->weight().numel(), world->rank() == 0 ? 2 : 1);
    EXPECT_EQ(LoraPlusRate(*shards[0], 16.0), 1.0);
    EXPECT_EQ(LoraPlusRate(*shards[1], 16.0), 16.0);
    EXPECT_THROW(matrix->weight(), c10::Error);
  });
}

// The bytes that a rank sends in a step equal those of zero_cost.h exactly.
TEST(ZeroTest, BytesSentAreTheFormula) {
  const model::ModelConfig config = model::SmallConfig();
  const Parameters parameters = model::RandomWeights(config, at::kDouble);
  for (const int ranks : {2, 3, 4}) {
    for (const int stage : {1, 2, 3}) {
      const Outcome outcome = Train({.ranks = ranks, .zero = {.stage = stage}});
      for (int rank = 0; rank < ranks; ++rank) {
        int64_t wanted = 2 * (ranks - 1) * static_cast<int64_t>(parameters.size()) * 8 /
                         ranks;                 // which have a gradient
        wanted += 2 * (ranks - 1) * 8 / ranks;  // the norm
        for (const auto& parameter : parameters) {
          const bool embedding = parameter->name() == "model.embed_tokens.weight";
          const int64_t users = embedding ? 2 : 1, leases = embedding ? 3 : 2;
          wanted += (stage == 3 ? kMicroBatches * leases : 1) *
                    GatherBytes(parameter->numel(), 8, ranks, rank);
          wanted += (stage == 1 ? 1 : kMicroBatches * users) *
                    ScatterBytes(parameter->numel(), 8, ranks, rank);
        }
        EXPECT_EQ(outcome.bytes_sent[rank], wanted)
            << "stage " << stage << ", rank " << rank << " of " << ranks;
        if (ranks == 4 && rank == 0)
          std::printf(
              "stage %d on 4 ranks: %ld bytes sent by rank 0 in a step, the formula says %ld\n",
              stage, outcome.bytes_sent[rank], wanted);
      }
    }
  }
}

struct Held {
  int64_t weights, gradients, state, peak;
};

// Returns rank 0's memory after a step, for a model of 16 blocks, and the peak during the step.
Held HeldIn(int stage, int ranks) {
  const model::ModelConfig config = model::SmallConfig(/*tied=*/true, /*layers=*/16);
  const Parameters first = model::RandomWeights(config, at::kFloat);
  Held held{};
  RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
    LiveBytes live;
    auto mesh = comm::Mesh::Create(world, 1);
    auto zero = Zero::Create({.stage = stage, .bucket_bytes = 1024}, **mesh);
    ASSERT_OK(zero);
    Parameters parameters;
    for (const auto& each : first) {  // as a model is loaded: one whole weight at a time
      parameters.push_back(std::make_shared<base::Parameter>(each->name(), each->weight().clone()));
      (*zero)->Part(*parameters.back());
    }
    auto model = model::Transformer::Create(config, parameters, {});
    auto states = States::Create(*zero, parameters, std::nullopt);
    auto adamw = AdamW::Create({}, (*states)->shards());
    for (int step = 0; step < 2; ++step) {
      (*states)->ClearGradients();
      live.ResetPeak();
      Backward(**model, world->rank(), step, 0, at::kFloat);
      ASSERT_OK((*states)->SumGradients());
      (*adamw)->Step(1e-3);
      ASSERT_OK((*states)->Publish());
    }
    if (world->rank() != 0) return;
    const States::Bytes bytes = (*states)->bytes();
    held = {bytes.weights, bytes.gradients, (*adamw)->state_bytes(), live.peak()};
  });
  std::printf("stage %d on %d ranks: weights %ld, gradients %ld, state %ld bytes; peak %ld\n",
              stage, ranks, held.weights, held.gradients, held.state, held.peak);
  return held;
}

// The memory is a quarter of everything that the stage shards, plus temporary memory: two blocks'
// weights (one is prefetched), one block's gradient, a bucket.
TEST(ZeroTest, ARankOfFourHoldsAQuarter) {
  const model::ModelConfig config = model::SmallConfig(/*tied=*/true, /*layers=*/16);
  int64_t all = 0, quarter = 0, block = 0, tensors = 0;
  for (const auto& parameter : model::RandomWeights(config, at::kFloat)) {
    all += parameter->numel() * 4;
    quarter += PartsOf(parameter->numel(), 4)[0] * 4;
    if (parameter->name().find("layers.0.") != std::string::npos) block += parameter->numel() * 4;
    ++tensors;
  }
  EXPECT_LE(quarter, all / 4 + 4 * tensors);
  const int64_t counters = 4 * tensors;  // AdamW's step, a number a tensor
  const Held plain = HeldIn(0, 4), one = HeldIn(1, 4), two = HeldIn(2, 4), three = HeldIn(3, 4);
  EXPECT_EQ(plain.weights, all);
  EXPECT_EQ(plain.gradients, all);
  EXPECT_EQ(plain.state, 2 * all + counters);
  EXPECT_EQ(one.weights, all);
  EXPECT_EQ(one.state, 2 * quarter + counters);
  EXPECT_EQ(two.weights, all);
  EXPECT_EQ(two.gradients, quarter);
  EXPECT_EQ(two.state, 2 * quarter + counters);
  EXPECT_EQ(three.weights, quarter);
  EXPECT_EQ(three.gradients, quarter);
  EXPECT_EQ(three.state, 2 * quarter + counters);
  const int64_t activations = 48 << 10;  // of five tokens in a block and the stream at 17 places
  EXPECT_LE(three.peak, 4 * quarter + counters + 4 * block + activations) << "block " << block;
  EXPECT_GT(plain.peak, 4 * all);
}

}  // namespace
}  // namespace moonring::trainer
