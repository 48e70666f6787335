// Results do not depend on ranks, strategy, packing or accumulation, for any objective: every case
// of invariance.h runs on several ranks and sp sizes, each time with another strategy and packing,
// and one case of each kind of objective runs with all strategies. invariance_matrix_test.cc runs
// all combinations.

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "tests/scripts/invariance.h"

namespace moonring::testing {
namespace {

bool IsAmong(const std::string& name, std::initializer_list<const char*> names) {
  return std::count(names.begin(), names.end(), name) > 0;
}

const InvarianceCase& CaseOf(const std::vector<InvarianceCase>& cases, const std::string& name) {
  return *std::find_if(cases.begin(), cases.end(),
                       [&](const auto& each) { return each.name == name; });
}

// Returns true for one case of each kind of objective: custom losses of tokens (sft_own) and of
// pairs (dpo_own), which are also compared with the built-in ones of the same formula; the two with
// a mask (sft_prefix, dpo_branch); a reward model's scores (rm); and KTO, whose loss depends on a
// whole group of examples (kto_lora).
bool IsRepresentative(const std::string& name) {
  return IsAmong(name, {"sft_own", "sft_prefix", "dpo_own", "dpo_branch", "rm", "kto_lora"});
}

TEST_F(InvarianceTest, OfEveryObjective) {
  const std::vector<InvarianceCase> cases = Cases();
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases));
  std::vector<InvarianceRun> single;
  for (const InvarianceCase& each : cases) single.push_back(RunOf(each, kStrategies[1], false));
  Compare({1, 1}, single, 1e-10);
  int turn = 0;
  for (const Ranks& ranks : {Ranks{2, 1}, Ranks{2, 2}, Ranks{4, 2}, Ranks{4, 4}}) {
    std::vector<InvarianceRun> plan;
    for (size_t i = 0; i < cases.size(); ++i) {
      const char* strategy = kStrategies[(i + 2 * turn) % std::size(kStrategies)];
      const bool packed = (i + turn) % 2 == 0;
      plan.push_back(RunOf(cases[i], strategy, packed));
      if (cases[i].name == "dpo_cached") {  // it is compared with a live reference on the same plan
        plan.push_back(RunOf(CaseOf(cases, "sigmoid"), strategy, packed));
      }
    }
    for (const InvarianceCase& each : cases) {
      if (ranks.sp == 1 || ranks.sp != ranks.ranks || !IsRepresentative(each.name)) continue;
      for (const char* strategy : kStrategies) plan.push_back(RunOf(each, strategy, ranks.sp == 4));
    }
    Compare(ranks, plan, 1e-10);
    ++turn;
  }
}

// KTO's KL term is computed over a group of examples, which may be on several ranks; a step may
// have fewer examples than there are groups of ranks.
TEST_F(InvarianceTest, OfKtoOnFourRanks) {
  std::vector<InvarianceCase> cases = Cases();
  std::erase_if(cases, [](const auto& each) {
    return each.name.find("kto") == std::string::npos && each.name.rfind("one_", 0) != 0;
  });
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases));
  for (const int sp : {1, 2, 4}) {
    std::vector<InvarianceRun> plan;
    for (const InvarianceCase& each : cases) plan.push_back(RunOf(each, "zigzag-ring", true));
    Compare({4, sp}, plan, 1e-10);
  }
}

// fp32, for the first step of DPO with every strategy too: the loss is ln 2, because policy and
// reference are bit-identical.
TEST_F(InvarianceTest, InSinglePrecision) {
  std::vector<InvarianceCase> cases = Cases();
  std::erase_if(cases, [](const auto& each) {
    return !IsRepresentative(each.name) &&
           !IsAmong(each.name, {"sft_targets", "sft_lora", "sigmoid", "dpo_cached", "dpo_first"});
  });
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases, "fp32"));
  for (const Ranks& ranks : {Ranks{2, 2}, Ranks{4, 4}}) {
    std::vector<InvarianceRun> plan;
    for (const InvarianceCase& each : cases) {
      if (each.name != "dpo_first")
        plan.push_back(RunOf(each, ranks.sp == 2 ? "zigzag-ring" : "usp", ranks.sp == 4, "fp32"));
    }
    for (const char* strategy : kStrategies)
      plan.push_back(RunOf(CaseOf(cases, "dpo_first"), strategy, ranks.sp == 4, "fp32"));
    Compare(ranks, plan, 1e-5);
  }
}

}  // namespace
}  // namespace moonring::testing
