// Measures the work of a linear-attention layer (the short convolution and the gated delta rule) on
// a GPU, forward and backward, with Moonring's kernels and with LibTorch's operators. Prints
// operator calls, bytes, operations, working memory, and the time according to a roofline model,
// for docs/gpu-design.md. Runs on the pretend device (a simulated GPU), where large operations are
// counted and skipped: PRETEND_DEVICE_PRODUCTS=counted (pretend_device/counts.h). Environment
// variables: DELTA_WORK_TOKENS is the number of tokens; with MOST, the operators that move most
// bytes are printed.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/autograd/custom_function.h"
#include "mixers/over_ranks/local_mixing.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::KernelChoice;

// The sizes of Qwen3-Next: 16 key heads and 32 value heads of 128 channels, one decay per head.
constexpr int64_t kKeyHeads = 16, kValueHeads = 32, kWidth = 128, kTaps = 4;

struct Asked {
  int64_t calls = 0, waits = 0, blocking_copies = 0, peak_bytes = 0;
  double bytes = 0, flops = 0, seconds = 0;
  std::vector<std::pair<double, std::string>> most;  // bytes by operator
};

// Returns the time on an H100, with the rates of tests/gpu/roofline.py: 0.85 of 3.35 TB/s, and 0.75
// of 495 TFLOP/s in TF32 or of 67 TFLOP/s in fp32.
double Seconds(const pretend::Calls& calls, const std::string& by) {
  return std::max(static_cast<double>(calls.read + calls.written) / (0.85 * 3.35e12),
                  calls.flops / (0.75 * (by == "product tf32" ? 495e12 : 67e12)));
}

Asked Measure(int64_t tokens, bool by_channel, const char* word) {
  const KernelChoice choice(word);
  const c10::Device gpu(c10::kCUDA, 0);
  const int64_t channels = (2 * kKeyHeads + kValueHeads) * kWidth;
  const auto leaf = [&](at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::zeros(sizes, at::TensorOptions(gpu).dtype(dtype)).requires_grad_();
  };
  std::vector<int64_t> of_decay = {tokens, kValueHeads};
  if (by_channel) of_decay.push_back(kWidth);
  DeltaCall call{.x_TC = leaf({tokens, channels}, at::kBFloat16),
                 .taps_CW = leaf({channels, kTaps}, at::kFloat),
                 .g = leaf(of_decay, at::kFloat),
                 .beta_TH = leaf({tokens, kValueHeads}, at::kFloat),
                 .key_heads = kKeyHeads,
                 .value_heads = kValueHeads,
                 .key_dim = kWidth,
                 .value_dim = kWidth};
  call.options = {.scale = 0.088, .normalize = true};
  const at::Tensor d_out =
      at::zeros({tokens, kValueHeads, kWidth}, at::TensorOptions(gpu).dtype(at::kBFloat16));
  pretend::ResetCounts();
  const int64_t held = pretend::CountsNow().held_bytes;
  {
    const at::Tensor out = LocalMixing({tokens}).Delta(call);
    base::Differentiate({out}, {call.x_TC, call.taps_CW, call.g, call.beta_TH}, {d_out});
  }
  const pretend::Counts counts = pretend::CountsNow();
  Asked asked{.calls = counts.Kernels(),
              .waits = counts.Synchronizations(),
              .blocking_copies = counts.to_device.blocking + counts.to_host.blocking,
              .peak_bytes = counts.peak_bytes - held};
  std::map<std::string, double> by_operator;
  for (const auto& [alike, calls] : counts.work) {
    const auto bytes = static_cast<double>(calls.read + calls.written);
    asked.bytes += bytes;
    asked.flops += calls.flops;
    if (std::get<2>(alike) != "link") asked.seconds += Seconds(calls, std::get<2>(alike));
    by_operator[std::get<0>(alike)] += bytes;
  }
  for (const auto& [name, bytes] : by_operator) asked.most.emplace_back(bytes, name);
  std::sort(asked.most.rbegin(), asked.most.rend());
  return asked;
}

// Returns the number of tokens. The default is small, because each operator call takes the
// simulated device about a millisecond.
int64_t Tokens() {
  const char* const text = std::getenv("DELTA_WORK_TOKENS");
  return text == nullptr ? 512 : std::atoll(text);
}

void Print(const std::string& name, const Asked& asked) {
  std::printf(
      "%-34s %7ld calls, %8.2f GB, %6.1f GFLOP, %7.2f ms, %5.2f GiB, %ld waits, %ld copies\n",
      name.c_str(), static_cast<long>(asked.calls), asked.bytes / 1e9, asked.flops / 1e9,
      asked.seconds * 1e3, static_cast<double>(asked.peak_bytes) / (1 << 30),
      static_cast<long>(asked.waits), static_cast<long>(asked.blocking_copies));
  if (std::getenv("MOST") == nullptr) return;
  for (size_t i = 0; i < std::min<size_t>(24, asked.most.size()); ++i)
    std::printf("    %8.3f GB %s\n", asked.most[i].first / 1e9, asked.most[i].second.c_str());
}

TEST(DeltaWorkTest, OfALayer) {
  for (const bool by_channel : {false, true}) {
    const std::string name =
        std::string(by_channel ? "by channel, " : "by head, ") + std::to_string(Tokens()) + ", ";
    const Asked fused = Measure(Tokens(), by_channel, "fused");
    Print(name + "fused", fused);
    const Asked composed = Measure(Tokens(), by_channel, "composed");
    Print(name + "composed", composed);
    for (const Asked* asked : {&fused, &composed}) {
      EXPECT_EQ(asked->waits, 0);
      EXPECT_EQ(asked->blocking_copies, 0);
    }
    // With a decay per channel, only the scan and the convolution have kernels.
    EXPECT_LT(fused.bytes, (by_channel ? 0.85 : 0.35) * composed.bytes);
    if (by_channel) continue;
    const int64_t parts = (Tokens() + 4095) / 4096;  // 64 MiB each (mixers/rule/packed_heads.h)
    EXPECT_LT(fused.calls, 80 * parts);
  }
}

}  // namespace
}  // namespace moonring::mixers
