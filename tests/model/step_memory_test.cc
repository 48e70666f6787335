// What a forward and backward take beside weights, as transformer.h says it: counted over all threads, in units of the stream, T D numbers of 4 bytes.

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention/cpu_block_attention.h"
#include "attention/strategies.h"
#include "attention/threaded_tile_runner.h"
#include "attention/tile_plan.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "model/transformer.h"
#include "model/weights.h"
#include "tests/model/scratch_folder.h"
#include "tests/model/small_config.h"
#include "tests/testing/allocator_watch.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

constexpr int64_t kLayers = 6, kWidth = 72, kDocuments = 16, kLength = 512, kTokens = kDocuments * kLength;

struct Peaks {
  double forward = 0, backward = 0;  // in streams
  std::vector<at::Tensor> gradients;
};

// SmolLM2's shape, an eighth as wide: 9 query heads, 3 kv heads.
Peaks StepPeaks(TransformerOptions options, const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json json = moonring::testing::SmallJson({{"hidden_size", kWidth}, {"intermediate_size", 192}, {"num_hidden_layers", kLayers}, {"num_attention_heads", 9},
                                                      {"num_key_value_heads", 3}});
  json.merge_patch(changes);
  const ModelConfig config = moonring::testing::ParsedConfig(json);
  at::manual_seed(5);
  comm::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    parameters.push_back(std::make_shared<comm::Parameter>(weight.name, at::randn(weight.shape).mul_(0.1).to(options.weight_dtype)));
  }
  const auto model = Transformer::Create(config, parameters, options).value();
  const std::vector<int64_t> lengths(kDocuments, kLength);
  const at::Tensor ids = at::randint(config.vocab_size, {kTokens}, at::kLong), positions = comm::PositionsInDocuments(lengths);
  const attention::TileRunners runners = [](const at::Device&) { return std::make_shared<attention::ThreadedTileRunner>(std::make_shared<attention::CpuBlockAttention>()); };
  const auto strategy = attention::CreateAttention({{.name = "dense"}, comm::Communicator::Alone(), runners}).value();
  const auto layout = comm::Layout::Create(lengths, strategy->Divide(lengths), attention::CausalTileArea).value();
  const std::shared_ptr<attention::PlannedAttention> plan = strategy->Plan(layout).value();

  const double stream = kTokens * kWidth * 4.0;
  Peaks peaks;
  const moonring::testing::AllocatorWatch watch;
  at::Tensor loss = model->Forward(ids, positions, plan).hidden_TD.square().sum();
  peaks.forward = static_cast<double>(watch.peak_bytes()) / stream;
  watch.ResetPeak();
  loss.backward();
  peaks.backward = static_cast<double>(watch.peak_bytes()) / stream;
  for (const auto& parameter : parameters) peaks.gradients.push_back(parameter->gradient());
  return peaks;
}

TEST(StepMemoryTest, Print) {
  const moonring::testing::ScratchFolder folder;
  const auto disk = DiskStore::Create(folder.path()).value();
  const Peaks tiled = StepPeaks({.tile_bytes = 1}),
              away = StepPeaks({.tile_bytes = 1, .activation_store = disk}),
              selective = StepPeaks({.recompute = Recompute::kSelective, .tile_bytes = 1, .activation_store = disk}),
              bf = StepPeaks({.matmul_dtype = at::kBFloat16, .tile_bytes = 1, .activation_store = disk});
  for (const auto* p : {&tiled, &away, &selective, &bf}) std::printf("forward %.2f backward %.2f\n", p->forward, p->backward);
}

}  // namespace
}  // namespace moonring::model
