// Every attention strategy on tensors of a device, compared with the definition of attention in
// fp64. The ranks are threads that share the device and exchange over Gloo, so one GPU is enough.
// The environment variable ACCEPT_DEVICE names the device; the default is "cpu".
//
// Relative bounds for each tensor: fp32 2e-6; bf16 twice (out) and three times (gradients) the
// error of LibTorch's own bf16 kernel on the CPU, 2.0e-3 and 4.6e-3.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/problem.h"

namespace moonring::attention {
namespace {

constexpr int kMostRanks = 4;

std::vector<Case> Cases() {
  std::vector<Case> cases = AllCases();
  std::erase_if(cases, [](const Case& each) { return each.ranks > kMostRanks; });
  return cases;
}

class ModesConformanceTest : public ::testing::TestWithParam<std::tuple<at::ScalarType, Case>> {
 protected:
  static double Bound(bool is_gradient) {
    if (std::get<0>(GetParam()) == at::kFloat) return 2e-6;
    return is_gradient ? 1.4e-2 : 4e-3;
  }
};

INSTANTIATE_TEST_SUITE_P(, ModesConformanceTest,
                         ::testing::Combine(::testing::Values(at::kFloat, at::kBFloat16),
                                            ::testing::ValuesIn(Cases())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == at::kFloat ? "fp32_"
                                                                                    : "bf16_") +
                                  NameOf(std::get<1>(info.param));
                         });

TEST_P(ModesConformanceTest, EqualsTheDefinition) {
  const char* const name = std::getenv("ACCEPT_DEVICE");
  const at::Device device(name == nullptr ? "cpu" : name);
  const auto& [dtype, candidate] = GetParam();
  at::manual_seed(17);
  const Problem problem = RandomProblem({1, 63, 0, 300, 64, 65, 700}, {4, 2, 16}, dtype);
  Problem moved = problem;
  for (at::Tensor Problem::*rows : {&Problem::q, &Problem::k, &Problem::v, &Problem::dout})
    moved.*rows = (problem.*rows).to(device);
  const Solution want = Written(problem),
                 got = SolveAll(candidate.strategy, candidate.ranks, {moved})[0];
  double worst = 0;  // greatest ratio of an error to its bound
  for (int m = 0; m < 4; ++m) {
    const double error = ErrorOf((got.*kMembers[m]).cpu(), want.*kMembers[m]);
    EXPECT_LE(error, Bound(m > 0)) << kNames[m];
    worst = std::max(worst, error / Bound(m > 0));
  }
  RecordProperty("error_over_bound", std::to_string(worst));
}

}  // namespace
}  // namespace moonring::attention
