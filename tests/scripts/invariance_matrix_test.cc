// Every case of invariance.h under every strategy, packed and with one example per micro-batch, on
// up to four ranks; three ranks divide neither heads nor blocks. It takes about twenty minutes:
//
//   bazel test //tests/scripts:invariance_matrix_test --test_output=all

#include <vector>

#include "tests/scripts/invariance.h"

namespace moonring::testing {
namespace {

class InvarianceMatrixTest : public InvarianceTest {};

TEST_F(InvarianceMatrixTest, OfEveryObjectiveUnderEveryStrategy) {
  const std::vector<InvarianceCase> cases = Cases();
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases));
  for (const Ranks& ranks : {Ranks{2, 2}, Ranks{3, 3}, Ranks{4, 1}, Ranks{4, 2}, Ranks{4, 4}}) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      if (ranks.sp == 1 && strategy != kStrategies[0]) continue;  // all are the same on one rank
      std::vector<InvarianceRun> plan;
      for (const InvarianceCase& each : cases) {
        for (const bool packed : {true, false}) plan.push_back(RunOf(each, strategy, packed));
      }
      Compare(ranks, plan, 1e-10);
    }
  }
}

}  // namespace
}  // namespace moonring::testing
