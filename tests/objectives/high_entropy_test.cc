#include "objectives/high_entropy.h"

#include <fstream>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/communicator.h"
#include "comm/process_groups.h"
#include "nlohmann/json.hpp"
#include "tests/testing/run_ranks.h"

namespace moonring::objectives {
namespace {

using moonring::testing::RunRanks;
using nlohmann::json;

at::Tensor Entropies(const std::vector<double>& numbers) {
  return at::tensor(numbers, at::kDouble);
}

double Alone(const std::vector<double>& entropies, double share) {
  return EntropyThreshold(Entropies(entropies), share, *comm::Communicator::Alone());
}

// Thresholds and masks equal TRL's (tests/golden/objectives/make_policy_gradient.py).
TEST(HighEntropyTest, IsTrls) {
  const json golden = json::parse(std::ifstream("tests/golden/objectives/policy_gradient.json"));
  int64_t seen = 0;
  for (const json& wanted : golden["losses"]) {
    if (!wanted.contains("threshold")) continue;
    ++seen;
    const bool masked = wanted["options"].value("masked", false);
    std::vector<double> counted;
    for (size_t d = 0; d < golden["lengths"].size(); ++d) {
      if (masked && golden["truncated"][d].get<bool>()) continue;
      for (const json& entropy : golden["entropies"][d]) counted.push_back(entropy);
    }
    const double threshold = Alone(counted, wanted["options"]["top_entropy_quantile"]);
    EXPECT_NEAR(threshold, wanted["threshold"].get<double>(), 1e-15);
    for (size_t d = 0; d < golden["lengths"].size(); ++d) {
      const bool out = masked && golden["truncated"][d].get<bool>();
      for (size_t t = 0; t < golden["entropies"][d].size(); ++t) {
        EXPECT_EQ(!out && golden["entropies"][d][t].get<double>() >= threshold,
                  wanted["high_entropy"][d][t].get<bool>());
      }
    }
  }
  EXPECT_GT(seen, 0);
}

TEST(HighEntropyTest, TheShareOfTokens) {
  const std::vector<double> entropies = {3, 1, 4, 2, 0};
  EXPECT_EQ(Alone(entropies, 1.0), 0);  // selects all tokens
  EXPECT_EQ(Alone(entropies, 0.0), 4);  // selects only the highest
  EXPECT_EQ(Alone(entropies, 0.5), 2);
  EXPECT_NEAR(Alone(entropies, 0.4), 2.4, 1e-15);
  EXPECT_EQ(Alone({7}, 0.3), 7);
  EXPECT_EQ(Alone({}, 0.3), std::numeric_limits<double>::infinity());
  EXPECT_THROW(Alone(entropies, 1.5), c10::Error);
  EXPECT_THROW(EntropyThreshold(at::ones({2}, at::kLong), 0.5, *comm::Communicator::Alone()),
               c10::Error);
}

// The threshold does not depend on how tokens are distributed over ranks, one of which may have
// none.
TEST(HighEntropyTest, OverRanks) {
  const at::Tensor all = at::rand({37}, at::kDouble);
  const double wanted = EntropyThreshold(all, 0.2, *comm::Communicator::Alone());
  RunRanks(3, [&](std::shared_ptr<comm::World> world) {
    const int rank = world->communicator()->rank();
    const at::Tensor mine = rank == 0 ? all.narrow(0, 0, 30) : all.narrow(0, 30, rank == 1 ? 7 : 0);
    EXPECT_EQ(EntropyThreshold(mine, 0.2, *world->communicator()), wanted);
  });
}

}  // namespace
}  // namespace moonring::objectives
