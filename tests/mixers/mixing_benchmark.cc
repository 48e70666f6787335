// Seconds of PlannedMixing::Delta with its convolution in fp32, forward alone and with backward, by
// strategy, ranks (threads with one intra-op thread each) and tokens. Arguments: tokens. One
// document, contiguous, 4 key heads and 8 value heads with 64 key and 64 value channels; the time
// of the slowest rank, the better of two runs.
//
// First it prints this machine's values for MachineModel in mixing_cost.h: CPU seconds of the rule,
// and the time of an exchange between two ranks, as the minimum of many, so that other processes
// have little influence.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "comm/layout.h"
#include "gtest/gtest.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "mixers/rule/delta_rule.h"
#include "tests/testing/connected_ranks.h"

namespace moonring::mixers {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns CPU seconds of the rule without communication, forward and backward; the best of five.
double RuleCpu(int64_t tokens, int64_t heads, int64_t width) {
  const auto leaf = [](at::Tensor x) { return x.requires_grad_(); };
  const at::Tensor q = leaf(at::randn({tokens, heads, width})),
                   k = leaf(at::randn({tokens, heads, width})),
                   v = leaf(at::randn({tokens, heads, width})),
                   g = leaf(at::rand({tokens, heads}).neg()),
                   beta = leaf(at::rand({tokens, heads}));
  double least = 1e9;
  for (int run = 0; run < 5; ++run) {
    const std::clock_t start = std::clock();
    const at::Tensor out =
        GatedDeltaRule({q, k, v, g, beta, {}}, {tokens}, {.scale = 0.1, .normalize = true}).out_THV;
    base::Differentiate({out}, {q, k, v, g, beta}, {at::ones_like(out)});
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

// Returns seconds of an exchange with this many bytes in each direction; the minimum of `times`.
double ExchangeSeconds(int64_t bytes, int times) {
  double least = 1e9;
  testing::ConnectedRanks(2).Run([&](std::shared_ptr<comm::World> world) {
    const auto group = world->communicator();
    const int other = 1 - group->rank();
    const at::Tensor out = at::zeros({bytes}, at::kByte), in = at::zeros({bytes}, at::kByte);
    for (int run = 0; run < times; ++run) {
      if (!group->Barrier().ok()) return;
      const double start = Now();
      if (!group->Exchange({{out, other}}, {{in, other}}).value().Wait().ok()) return;
      if (group->rank() == 0) least = std::min(least, Now() - start);
    }
  });
  return least;
}

void MeasureMachine() {
  // The flops of forward and backward, and the seconds of four scans, by the formulas in
  // mixing_cost.h.
  const auto flop = [](double tokens, double heads, double d) {
    return 4 * tokens * heads * 2 * (64 * 5 * d + 3 * d * d + 64 * 64 / 3.0);
  };
  const double flops = flop(2048, 16, 128) / RuleCpu(2048, 16, 128);
  const double scan = (RuleCpu(16384, 1, 16) - flop(16384, 1, 16) / flops) / (4 * 16384 / 64);
  const double step = ExchangeSeconds(8, 2000), large = ExchangeSeconds(1 << 22, 200);
  std::printf("flops %.2g, scan_seconds %.2g, bytes %.2g, step_seconds %.2g\n", flops, scan,
              (1 << 22) / (large - step), step);
}

void Measure(int64_t tokens, int ranks, MixingStrategy strategy, const char* name) {
  constexpr int64_t kKeyHeads = 4, kHeads = 8, kWidth = 64;
  constexpr int64_t kChannels = (2 * kKeyHeads + kHeads) * kWidth;
  std::mutex mutex;
  double forward = 0, both = 0;
  int64_t bytes = 0;
  testing::ConnectedRanks(ranks).Run([&](std::shared_ptr<comm::World> world) {
    const auto group = world->communicator();
    const auto layout = comm::Layout::Create({tokens}, {ranks}).value();
    const int64_t rows = layout->local_tokens(group->rank());
    const auto leaf = [](at::Tensor x) { return x.requires_grad_(); };
    const at::Tensor x = leaf(at::randn({rows, kChannels})), taps = leaf(at::randn({kChannels, 4})),
                     g = leaf(at::rand({rows, kHeads}).neg()),
                     beta = leaf(at::rand({rows, kHeads}));
    double own_forward = 1e9, own_both = 1e9;
    for (int run = 0; run < 2; ++run) {
      if (!group->Barrier().ok()) return;
      const double start = Now();
      const at::Tensor out = PlanMixing(layout, group, {strategy})
                                 ->Delta({.x_TC = x,
                                          .taps_CW = taps,
                                          .g = g,
                                          .beta_TH = beta,
                                          .key_heads = kKeyHeads,
                                          .value_heads = kHeads,
                                          .key_dim = kWidth,
                                          .value_dim = kWidth,
                                          .options = {.scale = 0.125, .normalize = true}});
      own_forward = std::min(own_forward, Now() - start);
      base::Differentiate({out}, {x, taps, g, beta}, {at::ones_like(out)});
      own_both = std::min(own_both, Now() - start);
    }
    const std::lock_guard<std::mutex> lock(mutex);
    forward = std::max(forward, own_forward);
    both = std::max(both, own_both);
    bytes = std::max(bytes, group->counters().bytes_sent / 2);
  });
  std::printf("%-5s %d ranks %6ld tokens: forward %.3f s, with backward %.3f s, sent %.2f MB\n",
              name, ranks, static_cast<long>(tokens), forward, both,
              static_cast<double>(bytes) / 1e6);
  std::fflush(stdout);
}

}  // namespace
}  // namespace moonring::mixers

int main(int argc, char** argv) {
  using moonring::mixers::MixingStrategy;
  ::testing::InitGoogleTest(&argc, argv);
  at::set_num_threads(1);
  moonring::mixers::MeasureMachine();
  for (int i = 1; i < argc; ++i) {
    moonring::mixers::Measure(std::atol(argv[i]), 1, MixingStrategy::kAuto, "one");
    for (const int ranks : {2, 4}) {
      moonring::mixers::Measure(std::atol(argv[i]), ranks, MixingStrategy::kHeads, "heads");
      moonring::mixers::Measure(std::atol(argv[i]), ranks, MixingStrategy::kSpans, "spans");
      moonring::mixers::Measure(std::atol(argv[i]), ranks, MixingStrategy::kRelay, "relay");
    }
  }
  return 0;
}
