// The memory of a forward and backward in addition to the weights, as documented in transformer.h:
// counted over all threads, in units of the hidden states of the whole stream (T D numbers of 4
// bytes).

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention/kernels/cpu_block_attention.h"
#include "attention/kernels/threaded_tile_runner.h"
#include "attention/kernels/tile_plan.h"
#include "attention/strategy/strategies.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "model/blocks/disk_store.h"
#include "model/config/weights.h"
#include "model/transformer.h"
#include "tests/model/small_config.h"
#include "tests/testing/all_close.h"
#include "tests/testing/allocator_watch.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

constexpr int64_t kMemoryLayers = 6, kWidth = 72, kDocuments = 64, kLength = 128,
                  kMemoryTokens = kDocuments * kLength;

using ::moonring::testing::AllocatorWatch;
using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using ::moonring::testing::ScratchFolder;

// The config of SmolLM2 with an eighth of its width: 9 query heads, 3 kv heads.
nlohmann::json Shape(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json json = moonring::testing::SmallJson({{"hidden_size", kWidth},
                                                      {"intermediate_size", 192},
                                                      {"num_hidden_layers", kMemoryLayers},
                                                      {"num_attention_heads", 9},
                                                      {"num_key_value_heads", 3}});
  json.merge_patch(changes);
  return json;
}

struct Step {
  double forward = 0, backward = 0;  // peaks in units of the hidden states
  std::vector<at::Tensor> gradients;
};

Step RunStep(const nlohmann::json& shape, TransformerOptions options, bool routed = false) {
  const ModelConfig config = moonring::testing::ParsedConfig(shape);
  at::manual_seed(5);
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    parameters.push_back(std::make_shared<base::Parameter>(
        weight.name, at::randn(weight.shape).mul_(0.1).to(options.weight_dtype)));
  }
  const auto model = Transformer::Create(config, parameters, options).value();
  const std::vector<int64_t> lengths(kDocuments, kLength);
  const at::Tensor ids = at::randint(config.vocab_size, {kMemoryTokens}, at::kLong),
                   positions = comm::PositionsInDocuments(lengths);
  const attention::TileRunners runners = [](const at::Device&) {
    return std::make_shared<attention::ThreadedTileRunner>(
        std::make_shared<attention::CpuBlockAttention>());
  };
  const auto strategy =
      attention::CreateAttention({{.name = "dense"}, comm::Communicator::Alone(), runners}).value();
  const auto layout =
      comm::Layout::Create(lengths, strategy->Divide(lengths), attention::CausalTileArea).value();
  const std::shared_ptr<attention::PlannedAttention> plan = strategy->Plan(layout).value();
  ForwardOptions forward;
  if (routed) forward.router_groups = {at::arange(kMemoryTokens).remainder_(3), 3};

  const double stream = kMemoryTokens * kWidth * 4.0;
  Step step;
  const AllocatorWatch watch;
  Hidden hidden = model->Forward(ids, positions, plan, forward);
  at::Tensor loss = hidden.hidden_TD.square().sum();
  if (routed) loss = loss + hidden.tally.probability_GE.square().sum();
  hidden = {};
  step.forward = static_cast<double>(watch.peak_bytes()) / stream;
  watch.ResetPeak();
  loss.backward();
  step.backward = static_cast<double>(watch.peak_bytes()) / stream;
  for (const auto& parameter : parameters) step.gradients.push_back(parameter->gradient());
  return step;
}

// The minimum for attention's backward is 5 1/3 units: q, k, v and their gradients (1 2/3 each),
// attention's result and its gradient; plus the gradient of the block's output. Threads that share
// a document's keys add separate dk and dv (2/3).
TEST(StepMemoryTest, BlocksInputsAndOneBlocksWork) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto disk, DiskStore::Create(folder.path()));
  const Step tiled = RunStep(Shape(), {.tile_bytes = 1}),
             whole = RunStep(Shape(), {.tile_bytes = 0});
  EXPECT_LE(tiled.forward, kMemoryLayers + 4.0);
  EXPECT_LE(tiled.backward, kMemoryLayers + 7.3);
  EXPECT_GE(whole.backward, kMemoryLayers + 15.0);
  for (size_t i = 0; i < whole.gradients.size(); ++i)
    EXPECT_TRUE(RelativeError(tiled.gradients[i], whole.gradients[i], 2e-6)) << i;

  const Step away = RunStep(Shape(), {.tile_bytes = 1, .activation_store = disk});
  EXPECT_LE(away.forward, 6.0);
  EXPECT_LE(away.backward, 8.0);  // for any number of layers
  const Step selective = RunStep(
      Shape(), {.recompute = Recompute::kSelective, .tile_bytes = 1, .activation_store = disk});
  EXPECT_LE(selective.forward, 6.5);
  EXPECT_LE(selective.backward, 8.0);
  for (size_t i = 0; i < away.gradients.size(); ++i) {
    EXPECT_TRUE(BitEqual(away.gradients[i], tiled.gradients[i])) << i;
    EXPECT_TRUE(BitEqual(selective.gradients[i], tiled.gradients[i])) << i;
  }
  EXPECT_LE(
      RunStep(Shape(), {.matmul_dtype = at::kBFloat16, .tile_bytes = 1, .activation_store = disk})
          .backward,
      9.5);
}

// If some layers keep more activations than others, each costs the memory of what it keeps. No bit
// of the results changes, except by the order of a tile's sums.
TEST(StepMemoryTest, SomeLayersKeepMore) {
  const Step block = RunStep(Shape(), {.tile_bytes = 1}),
             selective = RunStep(Shape(), {.selective_layers = 4, .tile_bytes = 1}),
             mixed = RunStep(Shape(), {.whole_layers = 1, .selective_layers = 3, .tile_bytes = 1});
  const double attention =
      1.0 + 9.0 / kWidth;  // attention's result and lse, in units of the hidden states' width
  EXPECT_NEAR(selective.backward, block.backward + 4 * attention, 1.0);
  const double graph = 3.0 + 2 * 192.0 / kWidth + 15.0 / 9 +
                       attention;  // hidden states twice and normalized; gate, up; q, k, v
  EXPECT_NEAR(mixed.backward, block.backward + graph - 1 + 3 * attention, 1.2);
  for (size_t i = 0; i < block.gradients.size(); ++i) {
    EXPECT_TRUE(BitEqual(selective.gradients[i], block.gradients[i])) << i;
    EXPECT_TRUE(RelativeError(mixed.gradients[i], block.gradients[i], 2e-6)) << i;
  }
}

// Tiles of rows do not change gradients in fp64, for families whose blocks differ after attention:
// fused matrices, norms before and after, biases, experts with router statistics.
TEST(StepMemoryTest, TilesChangeNoGradient) {
  struct Case {
    nlohmann::json changes;
    bool routed = false;
  };
  for (const Case& each :
       std::vector<Case>{{{{"architectures", {"LlamaForCausalLM"}},
                           {"model_type", "llama"},
                           {"mlp_bias", true},
                           {"attention_bias", true}}},
                         {{{"architectures", {"Phi3ForCausalLM"}}, {"model_type", "phi3"}}},
                         {{{"architectures", {"Olmo2ForCausalLM"}}, {"model_type", "olmo2"}}},
                         {{{"architectures", {"MixtralForCausalLM"}},
                           {"model_type", "mixtral"},
                           {"num_local_experts", 4},
                           {"num_experts_per_tok", 2}},
                          true}}) {
    SCOPED_TRACE(each.changes.dump());
    nlohmann::json shape = Shape(each.changes);
    shape["num_hidden_layers"] = 2;
    TransformerOptions options{
        .weight_dtype = at::kDouble, .matmul_dtype = at::kDouble, .tile_bytes = 0};
    const Step whole = RunStep(shape, options, each.routed);
    options.tile_bytes = 1;
    const Step tiled = RunStep(shape, options, each.routed);
    EXPECT_LT(tiled.backward, 0.8 * whole.backward);  // there were several tiles
    for (size_t i = 0; i < whole.gradients.size(); ++i)
      EXPECT_TRUE(RelativeError(tiled.gradients[i], whole.gradients[i], 1e-12)) << i;
  }
}

}  // namespace
}  // namespace moonring::model
