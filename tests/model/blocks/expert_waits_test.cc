// A mixture of experts on the pretend device (a simulated GPU): how often the host waits for the
// device, forward and backward; results and gradients equal the CPU's.

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/products/gradient_sum.h"
#include "model/blocks/experts.h"
#include "model/blocks/layers.h"
#include "tests/testing/all_close.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::model {
namespace {

using ::moonring::testing::RelativeError;
using LayerTensors = std::vector<at::Tensor>;

constexpr int64_t kWaitingExperts = 8, kWaitingInner = 16, kTokens = 37;
const c10::Device kDevice(c10::kCUDA, 0);

struct WaitingLayer {
  ExpertRule rule;
  int64_t hidden = 32;
  bool correction = false, switched = false, scaled = false;
};

// A layer with the features of gpt-oss's experts.
WaitingLayer GptOss() {
  WaitingLayer layer;
  layer.rule = {
      .count = kWaitingExperts, .chosen = 4, .intermediate = kWaitingInner, .normalised = true};
  layer.rule.storage = ExpertStorage::kTransposed;
  layer.rule.bias = true;
  layer.rule.clamped = {.limit = 1.5, .slope = 1.702};
  return layer;
}

// A layer with the features of Qwen3.5-MoE: a shared expert with a gate.
WaitingLayer Qwen() {
  WaitingLayer layer;
  layer.rule = {.count = kWaitingExperts,
                .chosen = 2,
                .intermediate = kWaitingInner,
                .shared = 24,
                .normalised = true};
  layer.rule.storage = ExpertStorage::kTransposedHalves;
  layer.switched = true;
  return layer;
}

// A layer with sigmoid scores, groups, a correction bias, and a scale for each expert.
WaitingLayer Scaled() {
  WaitingLayer layer;
  layer.rule = {.count = kWaitingExperts,
                .chosen = 3,
                .intermediate = kWaitingInner,
                .normalised = true,
                .score = RouterScore::kSigmoid};
  layer.rule.groups = 4;
  layer.rule.chosen_groups = 2;
  layer.rule.storage = ExpertStorage::kStacked;
  layer.correction = layer.scaled = true;
  return layer;
}

struct Asked {
  int64_t waits = 0, blocking_copies = 0, grouped = 0;
};

// Returns the result, the sums of probabilities, and the gradients of all leaves.
LayerTensors RunLayer(const WaitingLayer& layer, at::ScalarType dtype, c10::Device device,
                      bool sums, Asked* asked) {
  const ExpertRule& rule = layer.rule;
  // at::manual_seed would also seed CUDA's generator, which does not exist here.
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const auto random = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::kDouble);
  };
  LayerTensors leaves;
  const auto leaf = [&](at::IntArrayRef sizes) {
    leaves.push_back(random(sizes).mul_(0.5).to(dtype).to(device).requires_grad_());
    return leaves.back();
  };
  ExpertMaps maps;
  const int64_t d = layer.hidden;
  const bool transposed = IsTransposed(rule.storage);
  const at::Tensor x = leaf({kTokens, d});
  maps.router.weight_OI = leaf({kWaitingExperts, d});
  const auto stack = [&](Projection& map, int64_t rows, int64_t columns) {
    map.weight_OI = transposed ? leaf({kWaitingExperts, columns, rows})
                               : leaf({kWaitingExperts, rows, columns});
    if (rule.bias) map.bias_O = leaf({kWaitingExperts, rows});
    if (sums) map.sum = std::make_shared<kernels::GradientSum>(at::kFloat);
  };
  stack(maps.gate_up, 2 * kWaitingInner, d);
  stack(maps.down, d, kWaitingInner);
  if (rule.bias) maps.router.bias_O = leaf({kWaitingExperts});
  if (rule.shared > 0) {
    maps.shared.gate.weight_OI = leaf({rule.shared, d});
    maps.shared.up.weight_OI = leaf({rule.shared, d});
    maps.shared.down.weight_OI = leaf({d, rule.shared});
  }
  if (layer.switched) maps.shared_switch.weight_OI = leaf({1, d});
  if (layer.scaled) maps.scale_E = leaf({kWaitingExperts});
  if (layer.correction)
    maps.router_correction_E = random({kWaitingExperts}).mul_(0.1).to(WideDtype(dtype)).to(device);
  const at::Tensor dy = random({kTokens, d}).to(dtype).to(device),
                   dp = random({2, kWaitingExperts}).to(WideDtype(dtype)).to(device);
  const RouterGroups groups{(at::arange(kTokens) % 2).to(device), 2};

  pretend::ResetCounts();
  const MixtureResult result = MixExperts(rule, Activation::kSilu, maps, x, groups);
  LayerTensors made = torch::autograd::grad({result.out_TD, result.tally.probability_GE}, leaves,
                                            {dy, dp}, std::nullopt, false, /*allow_unused=*/true);
  const pretend::Counts counts = pretend::CountsNow();
  *asked = {.waits = counts.Synchronizations(),
            .blocking_copies = counts.to_device.blocking + counts.to_host.blocking};
  if (const auto found = counts.kernels.find("_grouped_mm"); found != counts.kernels.end())
    asked->grouped = found->second;
  for (const Projection* map : {&maps.gate_up, &maps.down}) {
    if (sums) made.push_back(map->sum->Take());
  }
  made.push_back(result.out_TD.detach());
  made.push_back(result.tally.probability_GE.detach());
  for (at::Tensor& each : made) {
    if (each.defined()) each = each.to(at::kCPU);
  }
  return made;
}

void CheckWaits(const WaitingLayer& layer, at::ScalarType dtype, bool sums, double bound,
                int64_t waits, int64_t grouped) {
  SCOPED_TRACE(::testing::Message() << at::toString(dtype) << ", sums " << sums);
  Asked asked, on_cpu;
  const LayerTensors wanted = RunLayer(layer, dtype, at::kCPU, sums, &on_cpu),
                     made = RunLayer(layer, dtype, kDevice, sums, &asked);
  EXPECT_EQ(asked.waits, waits);
  EXPECT_EQ(asked.blocking_copies, waits);
  EXPECT_EQ(asked.grouped, grouped);
  ASSERT_EQ(made.size(), wanted.size());
  for (size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(made[i].defined(), wanted[i].defined()) << i;
    if (made[i].defined()) {
      EXPECT_TRUE(RelativeError(made[i], wanted[i], bound)) << i;
    }
  }
}

// In bf16 the host never waits. Grouped products: two in the forward, four in the backward, and two
// for the biases' gradients.
TEST(ExpertWaitsTest, NoneInBf16) {
  for (const bool sums : {false, true}) {
    CheckWaits(GptOss(), at::kBFloat16, sums, 2e-2, 0, 8);
    CheckWaits(Qwen(), at::kBFloat16, sums, 2e-2, 0, 6);
    CheckWaits(Scaled(), at::kBFloat16, sums, 2e-2, 0, 6);
  }
}

// In cases that LibTorch's grouped kernel does not support, the host waits once, for the numbers of
// rows of all experts.
TEST(ExpertWaitsTest, OneElsewhere) {
  for (WaitingLayer layer : {GptOss(), Qwen(), Scaled()}) {
    CheckWaits(layer, at::kFloat, false, 2e-6, 1, 0);
    CheckWaits(layer, at::kDouble, false, 1e-13, 1, 0);
    layer.hidden = 28;
    CheckWaits(layer, at::kBFloat16, true, 2e-2, 1, 0);
  }
  setenv("MOONRING_KERNELS", "composed", 1);
  CheckWaits(Qwen(), at::kBFloat16, true, 2e-2, 1, 0);
  unsetenv("MOONRING_KERNELS");
}

}  // namespace
}  // namespace moonring::model
