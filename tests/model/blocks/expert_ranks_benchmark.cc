// Seconds of a mixture of experts, forward and backward, on ranks that are threads with one core
// each: with all experts on each rank, and with the experts distributed; fp32, random weights and
// rows.
//
//   expert_ranks_benchmark RANKS HIDDEN INNER EXPERTS CHOSEN TOKENS     TOKENS: per rank

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "comm/bin_exchange.h"
#include "model/blocks/experts.h"
#include "tests/testing/run_ranks.h"

namespace moonring::model {
namespace {

constexpr int kRounds = 12;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the best time over all rounds.
double Seconds(const std::vector<int64_t>& a, comm::Communicator& world,
               const comm::BinExchange& ranks, bool shared) {
  const int64_t hidden = a[1], inner = a[2], count = a[3];
  ExpertRule rule{.count = count, .chosen = a[4], .intermediate = inner, .normalised = true};
  rule.storage = ExpertStorage::kStacked;
  const int64_t here = shared ? ranks.count() : count;
  const auto leaf = [](at::IntArrayRef sizes) {
    return (at::randn(sizes) * 0.02).requires_grad_();
  };
  ExpertMaps maps;
  maps.router.weight_OI = leaf({count, hidden});
  maps.gate_up.weight_OI = leaf({here, 2 * inner, hidden});
  maps.down.weight_OI = leaf({here, hidden, inner});
  const at::Tensor x = at::randn({a[5], hidden}).requires_grad_(), dy = at::randn({a[5], hidden});
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    if (!world.Barrier().ok()) return best;
    const double begin = Now();
    const at::Tensor out =
        MixExperts(rule, Activation::kSilu, maps, x, {}, shared ? &ranks : nullptr).out_TD;
    base::Differentiate(
        {out}, {x, maps.router.weight_OI, maps.gate_up.weight_OI, maps.down.weight_OI}, {dy});
    best = std::min(best, Now() - begin);
  }
  return best;
}

void Main(const std::vector<int64_t>& a) {
  testing::RunRanks(static_cast<int>(a[0]), [&](std::shared_ptr<comm::World> world) {
    const auto group = world->communicator();
    const comm::BinExchange ranks(group, comm::BinParts(a[3], group->size()));
    const double all = Seconds(a, *group, ranks, false), own = Seconds(a, *group, ranks, true);
    if (group->rank() == 0) std::printf("all %.6f own %.6f\n", all, own);
  });
}

}  // namespace
}  // namespace moonring::model

int main(int argc, char** argv) {
  std::vector<int64_t> arguments;
  for (int i = 1; i < argc; ++i) arguments.push_back(std::atoll(argv[i]));
  if (arguments.size() != 6) {
    std::fprintf(stderr,
                 "usage: expert_ranks_benchmark RANKS HIDDEN INNER EXPERTS CHOSEN TOKENS\n");
    return 2;
  }
  moonring::model::Main(arguments);
  return 0;
}
