// GRPO and related losses, from a model's weights to their gradients: the same with any number of
// ranks, any strategy and packing, and ZeRO-3.

#include <string>
#include <vector>

#include "tests/scripts/invariance.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

class PolicyGradientTest : public InvarianceTest {
 protected:
  // Returns a case for each loss, with a reference that differs from the policy. The documents are
  // the data set's answers and, for some losses, documents that leave a rank without a target.
  std::vector<InvarianceCase> OwnCases() const {
    json keys, lacking;
    for (const InvarianceCase& each : Cases()) {
      if (each.name == "dpo_own") keys = each.keys;
      if (each.name == "some_sigmoid") lacking = each.more;
    }
    std::vector<InvarianceCase> cases;
    for (const char* loss :
         {"grpo_token", "grpo_sequence", "bnpo_token", "bnpo_sequence", "dr_grpo_token",
          "dr_grpo_sequence", "dapo_token", "dapo_sequence", "rloo"}) {
      cases.push_back({loss, keys, {{"objective", loss}}});
      json more = lacking;
      more["objective"] = loss;
      cases.push_back({std::string("some_") + loss, keys, more});
    }
    return cases;
  }

  std::vector<InvarianceRun> Plan(const std::vector<InvarianceCase>& cases,
                                  const std::string& strategy, bool packed,
                                  const std::string& precision = "fp64") const {
    std::vector<InvarianceRun> plan;
    for (const InvarianceCase& each : cases)
      plan.push_back(RunOf(each, strategy, packed, precision));
    return plan;
  }
};

TEST_F(PolicyGradientTest, IsTheSameOnAnyRanks) {
  const std::vector<InvarianceCase> cases = OwnCases();
  ASSERT_TRUE(cases[1].more.contains("documents"));
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases));
  Compare({1, 1}, Plan(cases, "zigzag-ring", false), 1e-10);
  Compare({2, 1}, Plan(cases, "ulysses", true), 1e-10);
  Compare({2, 2}, Plan(cases, "zigzag-ring", false), 1e-10);
  Compare({4, 2}, Plan(cases, "ulysses", true), 1e-10);
  Compare({4, 4}, Plan(cases, "usp", true), 1e-10);
}

// With ZeRO-3 the head is gathered for the reference and for the policy, also on a rank without a
// target.
TEST_F(PolicyGradientTest, UnderZero3) {
  const std::vector<InvarianceCase> cases = OwnCases();
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases));
  std::vector<InvarianceRun> plan = Plan(cases, "ring", false);
  for (InvarianceRun& run : plan) run.entry["keys"]["zero_stage"] = 3;
  Compare({2, 2}, plan, 1e-10);
}

}  // namespace
}  // namespace moonring::testing
