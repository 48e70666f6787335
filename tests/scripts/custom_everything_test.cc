// A script with a user-defined module, optimizer, schedule, source and component, and a script that
// trains on rewards. After a kill each resumes bit-identically, and gives the same numbers on any
// number of ranks as on one.

#include <signal.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

class CustomEverything : public ResumedRuns {
 protected:
  Words CommandOfScript(const std::string& script, const std::string& out,
                        const Words& more) const {
    const std::string home = Runfile("tests/golden/stages");
    return Words{Runfile(script), "model=" + home + "/model", "dir=" + home + "/data",
                 "data=talks",    "template=chatml",          "out=" + out,
                 "lr=1e-3"} +
           more;
  }

  void KillBefore(int step, Words command) const {
    const std::string script = command.front();
    command.erase(command.begin());
    CommandOptions options = Options(
        Words{Runfile("tests/scripts/paused.lua"), std::to_string(step), Path("go")} + command);
    options.environment["PAUSED_SCRIPT"] = script;
    Command run(options);
    ASSERT_TRUE(run.WaitForOutput("waits before step " + std::to_string(step)))
        << run.Wait().Describe();
    kill(run.pid(), SIGKILL);
    run.Wait();
  }

  void ExpectNear(const std::string& a, const std::string& b, const Words& names,
                  double bound) const {
    const nlohmann::json ours = Steps(a), theirs = Steps(b);
    ASSERT_EQ(ours.size(), theirs.size());
    ASSERT_GE(ours.size(), 3u);
    for (size_t i = 0; i < ours.size(); ++i) {
      for (const std::string& name : names) {
        const double x = ours[i].at(name), y = theirs[i].at(name);
        EXPECT_NEAR(x, y, bound * std::max(1.0, std::fabs(y))) << a << " " << i << " " << name;
      }
    }
  }

  static constexpr char kScript[] = "tests/scripts/custom_everything.lua";
  static constexpr char kRewards[] = "scripts/grpo.lua";
};

TEST_F(CustomEverything, ResumesBitForBitAfterAKill) {
  const std::vector<Words> shapes = {{"sp=1"}, {"sp=2"}, {"sp=2", "zero=3"}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(shapes[i].back());
    const std::string whole = "whole" + std::to_string(i), again = "again" + std::to_string(i);
    ASSERT_THAT(Run(CommandOfScript(kScript, whole, shapes[i])), Succeeds());
    KillBefore(3 + static_cast<int>(i), CommandOfScript(kScript, again, shapes[i]));
    const CommandResult result =
        Run(CommandOfScript(kScript, again, shapes[i] + Words{"resume=true"}));
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.err, HasSubstr("goes on after step "));
    ExpectSameRun(whole, again);
    EXPECT_TRUE(ReadText(Path(whole + "/custom_adapter.safetensors")) ==
                ReadText(Path(again + "/custom_adapter.safetensors")));
  }
}

TEST_F(CustomEverything, HasTheNumbersOfOneRankOnAnyRanks) {
  ASSERT_THAT(Run(CommandOfScript(kScript, "one", {"fp64=true"})), Succeeds());
  const std::vector<std::pair<std::string, Words>> shapes = {
      {"sp2", {"sp=2", "fp64=true"}},
      {"sp4", {"sp=4", "fp64=true"}},
      {"sp2zero3", {"sp=2", "zero=3", "fp64=true"}}};
  for (const auto& [name, words] : shapes) {
    ASSERT_THAT(Run(CommandOfScript(kScript, name, words)), Succeeds());
    ExpectNear(name, "one", {"loss", "grad_norm", "total"}, 1e-9);
  }
  ASSERT_THAT(Run(Words{"-n", "2"} + CommandOfScript(kScript, "dp2", {"fp64=true"})), Succeeds());
  ExpectNear("dp2", "one", {"loss", "grad_norm", "total"}, 1e-9);
}

// Completions are sampled from seeds, so they are the same on any number of ranks and after a kill.
TEST_F(CustomEverything, TrainsOnRewardsTheSameOnAnyRanks) {
  const Words words = {"steps=4"};
  ASSERT_THAT(Run(CommandOfScript(kRewards, "one", words)), Succeeds());
  for (const std::string sp : {"2", "4"}) {
    ASSERT_THAT(Run(CommandOfScript(kRewards, "sp" + sp, words + Words{"sp=" + sp})), Succeeds());
    ExpectNear("sp" + sp, "one", {"reward", "grad_norm"}, 1e-4);
  }
  ASSERT_THAT(Run(Words{"-n", "2"} + CommandOfScript(kRewards, "dp2", words)), Succeeds());
  ExpectNear("dp2", "one", {"reward", "grad_norm"}, 1e-4);
  KillBefore(4, CommandOfScript(kRewards, "again", words));
  ASSERT_THAT(Run(CommandOfScript(kRewards, "again", words + Words{"resume=true"})), Succeeds());
  ExpectSameRun("one", "again");
}

}  // namespace
}  // namespace moonring::testing
