// Seconds of the gated delta rule in fp32, forward alone and with backward, by number of tokens.
// Arguments: threads, then tokens. One document, 8 heads with 128 key and 128 value channels; the
// best of three runs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/autograd/custom_function.h"
#include "mixers/rule/delta_rule.h"

namespace moonring::mixers {
namespace {

double Cpu() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Measure(int64_t tokens, bool by_channel) {
  constexpr int64_t kHeads = 8, kWidth = 128;
  const auto leaf = [](at::Tensor x) { return x.requires_grad_(); };
  const at::Tensor q = leaf(at::randn({tokens, kHeads, kWidth}));
  const at::Tensor k = leaf(at::randn({tokens, kHeads, kWidth}));
  const at::Tensor v = leaf(at::randn({tokens, kHeads, kWidth}));
  const at::Tensor g = leaf(by_channel ? at::rand({tokens, kHeads, kWidth}).neg()
                                       : at::rand({tokens, kHeads}).neg());
  const at::Tensor beta = leaf(at::rand({tokens, kHeads}));
  const at::Tensor d_out = at::randn({tokens, kHeads, kWidth});
  double forward = 1e9, both = 1e9, cpu = 1e9;
  for (int run = 0; run < 3; ++run) {
    const double start = Now(), start_cpu = Cpu();
    const DeltaResult result =
        GatedDeltaRule({q, k, v, g, beta, {}}, {tokens}, {.scale = 0.088, .normalize = true});
    forward = std::min(forward, Now() - start);
    base::Differentiate({result.out_THV}, {q, k, v, g, beta}, {d_out});
    both = std::min(both, Now() - start);
    cpu = std::min(cpu, Cpu() - start_cpu);
  }
  std::printf("%s %6ld tokens: forward %.3f s, with backward %.3f s, CPU %.3f s\n",
              by_channel ? "by channel" : "by head   ", static_cast<long>(tokens), forward, both,
              cpu);
}

}  // namespace
}  // namespace moonring::mixers

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  for (int i = 2; i < argc; ++i)
    for (const bool by_channel : {false, true})
      moonring::mixers::Measure(std::atol(argv[i]), by_channel);
  return 0;
}
