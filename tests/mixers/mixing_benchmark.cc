// Seconds of PlannedMixing::Delta with its convolution, forward and with backward, in fp32, by
// strategy, ranks (threads with one intra-op thread each) and tokens; arguments: tokens. 4 key and
// 8 value heads of 64 and 64 channels, one document, contiguous; the least of two runs of the
// slowest rank.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <ATen/ATen.h>

#include "comm/autograd/custom_function.h"
#include "comm/layout.h"
#include "gtest/gtest.h"
#include "mixers/plan_mixing.h"
#include "tests/testing/connected_ranks.h"

namespace moonring::mixers {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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
      comm::Differentiate({out}, {x, taps, g, beta}, {at::ones_like(out)});
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
  for (int i = 1; i < argc; ++i) {
    moonring::mixers::Measure(std::atol(argv[i]), 1, MixingStrategy::kAuto, "one");
    for (const int ranks : {2, 4}) {
      moonring::mixers::Measure(std::atol(argv[i]), ranks, MixingStrategy::kHeads, "heads");
      moonring::mixers::Measure(std::atol(argv[i]), ranks, MixingStrategy::kSpans, "spans");
    }
  }
  return 0;
}
