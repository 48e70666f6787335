// Training by `moonring serve`, without a door: the scripts of this folder run its handlers with a
// real model, on real ranks and folders (training_service.lua).

#include <string>
#include <utility>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

const char kModel[] = "tests/golden/stages/model";

class ServeTrainingTest : public Workplace {
 protected:
  // Runs a script NAME_test.lua on this many ranks, `sp` of which share a sequence.
  CommandResult Script(const std::string& name, int ranks, int sp, const Words& more = {},
                       const std::string& model = kModel) const {
    const std::string here = "tests/serve/training/";
    Words words = OnRanks(ranks) + Words{Runfile(here + name + "_test.lua"), Runfile(here),
                                         Runfile(model), Path("out")};
    return Run(words + more + Words{"sequence_parallel_size=" + std::to_string(sp)});
  }

  // Compares numbers of several ranks with those of one.
  void CompareLayouts(const std::string& precision, const std::string& tolerance,
                      const std::vector<std::pair<int, int>>& layouts) const {
    const Words words = {Path("reference.safetensors"), tolerance, precision};
    ASSERT_THAT(Script("layouts", 1, 1, words), Succeeds());
    for (const auto& [ranks, sp] : layouts) {
      const CommandResult result = Script("layouts", ranks, sp, words);
      EXPECT_THAT(result, Succeeds());
      EXPECT_THAT(result.out, HasSubstr("worst "));
    }
  }
};

TEST_F(ServeTrainingTest, LossesAndTheirGradients) {
  EXPECT_THAT(Script("losses", 1, 1), Succeeds());
}

TEST_F(ServeTrainingTest, OptimizerStepsByTheEquation) {
  EXPECT_THAT(Script("optimizer", 1, 1), Succeeds());
}

TEST_F(ServeTrainingTest, TenStepsOfPyTorch) {
  for (const std::string precision : {"fp64=true", "fp64=false"}) {
    EXPECT_THAT(Script("golden", 1, 1,
                       {Runfile("tests/golden/serve/golden.json"),
                        Runfile("tests/golden/stages/adapter"), precision}),
                Succeeds());
  }
}

TEST_F(ServeTrainingTest, RefusalsChangeNothing) {
  EXPECT_THAT(Script("refusals", 1, 1), Succeeds());
}

TEST_F(ServeTrainingTest, RefusalsChangeNothingOnTwoRanks) {
  EXPECT_THAT(Script("refusals", 2, 2), Succeeds());
}

TEST_F(ServeTrainingTest, SameNumbersOnAnyRanksInFp64) {
  CompareLayouts("fp64=true", "1e-10", {{2, 2}, {4, 4}, {2, 1}, {4, 2}});
}

TEST_F(ServeTrainingTest, SameNumbersOnTwoRanks) {
  CompareLayouts("fp64=false", "2e-6", {{2, 2}});
}

TEST_F(ServeTrainingTest, SameNumbersOnAnyRanksInFp32) {
  CompareLayouts("fp64=false", "2e-6", {{4, 4}, {2, 1}, {4, 2}});
}

TEST_F(ServeTrainingTest, SavedWeightsContinueWithTheSameBits) {
  EXPECT_THAT(Script("saving", 1, 1, {"first"}), Succeeds());
  EXPECT_THAT(Script("saving", 1, 1, {"second"}), Succeeds());
}

TEST_F(ServeTrainingTest, SavedWeightsContinueOnTwoRanks) {
  EXPECT_THAT(Script("saving", 2, 2, {"first"}), Succeeds());
  EXPECT_THAT(Script("saving", 2, 2, {"second"}), Succeeds());
}

TEST_F(ServeTrainingTest, SnapshotsStay) {
  EXPECT_THAT(Script("snapshots", 1, 1, {"first"}), Succeeds());
  EXPECT_THAT(Script("snapshots", 1, 1, {"second"}), Succeeds());
}

}  // namespace
}  // namespace moonring::testing
