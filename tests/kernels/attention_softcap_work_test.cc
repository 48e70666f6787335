// Measures the work of a bf16 attention layer with a softcap on a GPU, forward and backward: in
// strips of scores (with their kernel, and with LibTorch's operators), and in fp32. Prints operator
// calls, bytes per score, operations, working memory, and the time according to a roofline model,
// for docs/gpu-design.md. Runs on the pretend device (a simulated GPU), where large operations are
// counted and skipped: PRETEND_DEVICE_PRODUCTS=counted (pretend_device/counts.h). Environment
// variables: SOFTCAP_WORK_TOKENS is the number of tokens; with MOST, the operators that move most
// bytes are printed.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "attention/kernels/cuda_varlen_attention.h"
#include "attention/kernels/explicit_varlen_attention.h"
#include "attention/kernels/tile_plan.h"
#include "attention/kernels/varlen_tile_runner.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::attention {
namespace {

using ::moonring::testing::KernelChoice;

// The heads of Gemma-2-9B: 16 query heads of dim 256, 8 kv heads; every other layer has a window of
// 4096.
constexpr int64_t kLayerHeads = 16, kLayerKvHeads = 8, kLayerHeadDim = 256;

struct Asked {
  int64_t calls = 0, waits = 0, peak_bytes = 0;
  double bytes = 0, flops = 0, seconds = 0;
  std::vector<std::pair<double, std::string>> most;  // bytes by operator
};

// The time on an H100, with the rates of tests/gpu/roofline.py: 0.85 of 3.35 TB/s, and 0.75 of 989
// TFLOP/s in bf16 or of 67 TFLOP/s in fp32.
double Seconds(const pretend::Calls& calls, const std::string& by) {
  const double peak = by == "product bf16" ? 989e12 : 67e12;
  return std::max(static_cast<double>(calls.read + calls.written) / (0.85 * 3.35e12),
                  calls.flops / (0.75 * peak));
}

Asked Since(int64_t held) {
  const pretend::Counts counts = pretend::CountsNow();
  Asked asked{.calls = counts.Kernels(),
              .waits = counts.Synchronizations(),
              .peak_bytes = counts.peak_bytes - held};
  std::map<std::string, double> by_operator;
  for (const auto& [alike, calls] : counts.work) {
    const auto bytes = static_cast<double>(calls.read + calls.written);
    if (std::get<2>(alike) == "link") continue;
    asked.bytes += bytes;
    asked.flops += calls.flops;
    asked.seconds += Seconds(calls, std::get<2>(alike));
    by_operator[std::get<0>(alike)] += bytes;
  }
  for (const auto& [name, bytes] : by_operator) asked.most.emplace_back(bytes, name);
  std::sort(asked.most.rbegin(), asked.most.rend());
  return asked;
}

struct Layer {
  Asked forward, backward;
  double pairs = 0;  // number of visible pairs, over all heads
};

Layer Measure(const VarlenTileRunner& runner, int64_t tokens, int64_t window) {
  const at::TensorOptions bf16 = at::TensorOptions(c10::Device(c10::kCUDA, 0)).dtype(at::kBFloat16);
  const auto zeros = [&](int64_t heads) { return at::zeros({tokens, heads, kLayerHeadDim}, bf16); };
  const QueryKeyValue inputs{zeros(kLayerHeads), zeros(kLayerKvHeads), zeros(kLayerKvHeads)};
  const ScoreFunction score{1.0 / 16, 50.0};
  const comm::Span document{0, 0, tokens};
  const TilePlan plan =
      PlanTiles({tokens}, {document}, {{document, 0}},
                {.window = window, .grid = runner.GridFor(at::kBFloat16, kLayerHeadDim, score)});
  RunHeads heads{{}, score};
  for (int64_t kv = 0; kv < kLayerKvHeads; ++kv) heads.groups.push_back({{2 * kv, 2 * kv + 2}, kv});
  const bool at_once = runner.IsOneCall(plan, bf16.device());
  Layer layer{.pairs = plan.area() * kLayerHeads};
  const at::TensorOptions wide = bf16.dtype(at::kFloat);
  const auto start = [] {
    pretend::ResetCounts();
    return pretend::CountsNow().held_bytes;
  };
  int64_t held = start();
  PartialAttention whole;
  if (at_once) {
    whole = runner.ForwardAtOnce(heads, plan, inputs);
  } else {
    SoftmaxState state = SoftmaxState::Empty(tokens, kLayerHeads, kLayerHeadDim, wide);
    runner.Forward(heads, plan, inputs, state);
    whole = Finish(std::move(state));
  }
  layer.forward = Since(held);
  const QueryResults results{zeros(kLayerHeads), whole.out_MHD, whole.lse_MH};
  held = start();
  if (at_once) {
    runner.BackwardAtOnce(heads, plan, inputs, results, {});
  } else {
    const auto sums = [&](int64_t of) { return at::zeros({tokens, of, kLayerHeadDim}, wide); };
    runner.Backward(heads, plan, inputs, results,
                    {sums(kLayerHeads), sums(kLayerKvHeads), sums(kLayerKvHeads)});
  }
  layer.backward = Since(held);
  return layer;
}

void PrintLayer(const std::string& name, const Layer& layer) {
  for (const auto& [way, asked] :
       {std::pair{"forward", &layer.forward}, std::pair{"backward", &layer.backward}}) {
    std::printf(
        "%-22s %-9s %6ld calls, %8.3f GB, %5.1f a pair, %8.1f GFLOP, %8.3f ms, %5.2f GiB, %ld "
        "waits\n",
        name.c_str(), way, static_cast<long>(asked->calls), asked->bytes / 1e9,
        asked->bytes / layer.pairs, asked->flops / 1e9, asked->seconds * 1e3,
        static_cast<double>(asked->peak_bytes) / (1 << 30), static_cast<long>(asked->waits));
    if (std::getenv("MOST") == nullptr) continue;
    for (size_t i = 0; i < std::min<size_t>(12, asked->most.size()); ++i)
      std::printf("    %8.3f GB %s\n", asked->most[i].first / 1e9, asked->most[i].second.c_str());
  }
}

TEST(SoftcapWorkTest, OfALayer) {
  const char* const text = std::getenv("SOFTCAP_WORK_TOKENS");
  const int64_t tokens = text == nullptr ? 2048 : std::atoll(text);
  const VarlenTileRunner strips(std::make_shared<CudaVarlenAttention>()),
      in_fp32(std::make_shared<ExplicitVarlenAttention>());
  for (const int64_t window : {int64_t{0}, tokens / 2}) {
    const std::string with = window > 0 ? "window, " : "";
    const auto measure = [&](const char* word, const VarlenTileRunner& runner) {
      const KernelChoice choice(word);
      return Measure(runner, tokens, window);
    };
    const Layer fused = measure("fused", strips), composed = measure("composed", strips),
                before = measure("fused", in_fp32);
    PrintLayer(with + "strips", fused);
    PrintLayer(with + "strips, composed", composed);
    PrintLayer(with + "fp32", before);
    for (const Asked& asked : {fused.forward, fused.backward}) EXPECT_EQ(asked.waits, 0);
    // Bytes per score: 12 instead of 40 in the forward and 22 instead of 76 in the backward, plus
    // those of the inputs.
    EXPECT_LT(fused.forward.bytes, 0.5 * before.forward.bytes);
    EXPECT_LT(fused.backward.bytes, 0.5 * before.backward.bytes);
    EXPECT_LT(fused.forward.seconds, 0.4 * before.forward.seconds);
    EXPECT_LT(fused.backward.seconds, 0.4 * before.backward.seconds);
    // A document of 2,048 tokens is one strip, whose masked half is also computed.
    EXPECT_LT(fused.forward.flops, 1.5 * before.forward.flops);
  }
}

}  // namespace
}  // namespace moonring::attention
