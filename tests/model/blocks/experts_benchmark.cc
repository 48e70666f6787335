// Seconds of a mixture of experts in fp32, forward alone and with backward, with all weights
// trainable; random weights and rows. tests/peers/experts_vs_transformers.py runs this benchmark
// and Transformers' layer alternately.
//
//   experts_benchmark HIDDEN INNER EXPERTS CHOSEN TOKENS THREADS SECONDS     prints "forward both",
//       the best times of all rounds: for SECONDS, and five at least

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/blocks/experts.h"

namespace moonring::model {
namespace {

constexpr int kRounds = 5;  // at least

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int Main(const std::vector<int64_t>& a) {
  const int64_t hidden = a[0], inner = a[1], experts = a[2], chosen = a[3], tokens = a[4];
  at::set_num_threads(static_cast<int>(a[5]));
  at::manual_seed(1);
  std::vector<at::Tensor> leaves;
  const auto map = [&](int64_t out, int64_t in) {
    leaves.push_back((at::randn({out, in}) * 0.02).requires_grad_());
    return Projection{leaves.back(), at::Tensor(), std::nullopt};
  };
  ExpertMaps maps;
  maps.router = map(experts, hidden);
  for (int64_t e = 0; e < experts; ++e)
    maps.experts.push_back({map(inner, hidden), map(inner, hidden), map(hidden, inner)});
  const ExpertRule rule{experts, chosen, inner, 0, true};
  leaves.push_back(at::randn({tokens, hidden}).requires_grad_());
  const at::Tensor gradient = at::randn({tokens, hidden});
  double forward = 1e9, both = 1e9;
  // The first rounds are slower, because memory is allocated.
  const double end = Now() + static_cast<double>(a[6]);
  for (int round = 0; round < kRounds || Now() < end; ++round) {
    const double begin = Now();
    const at::Tensor out = MixExperts(rule, Activation::kSilu, maps, leaves.back(), {}).out_TD;
    const double middle = Now();
    torch::autograd::grad({out}, leaves, {gradient}, /*retain_graph=*/std::nullopt,
                          /*create_graph=*/false, /*allow_unused=*/true);
    forward = std::min(forward, middle - begin);
    both = std::min(both, Now() - begin);
  }
  std::printf("%.6f %.6f\n", forward, both);
  return 0;
}

}  // namespace
}  // namespace moonring::model

int main(int argc, char** argv) {
  std::vector<int64_t> arguments;
  for (int i = 1; i < argc; ++i) arguments.push_back(std::atoll(argv[i]));
  if (arguments.size() != 7) {
    std::fprintf(stderr,
                 "usage: experts_benchmark HIDDEN INNER EXPERTS CHOSEN TOKENS THREADS SECONDS\n");
    return 2;
  }
  return moonring::model::Main(arguments);
}
