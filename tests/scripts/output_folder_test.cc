// output_dir, which is one run's at a time, and what is left in it.

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OutputFolderTest : public ResumedRuns {};

TEST_F(OutputFolderTest, IsOneRunsAtATime) {
  Command first(Options(CommandOf("out", {"max_steps=1000000", "save_strategy=no"})));
  ASSERT_TRUE(first.WaitForOutput("step 2/")) << first.Wait().Describe();
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  const auto refused =
      FailsWith(2, AllOf(HasSubstr("output_dir: out is written to by process " +
                                   std::to_string(first.pid()) + " on " + host + ", since "),
                         HasSubstr("(out/run.lock)")));
  const Words over = {"max_steps=2", "overwrite_output_dir=true"};
  EXPECT_THAT(Train("out", over), refused);
  EXPECT_THAT(Train("out", over + Words{"sequence_parallel_size=2"}), refused);
  EXPECT_THAT(Train("out", {"max_steps=2", "resume_from_checkpoint=auto"}), refused);
  EXPECT_THAT(Train("other", {"max_steps=1"}), Succeeds());
  kill(first.pid(), SIGKILL);
  first.Wait();
  EXPECT_TRUE(fs::exists(Path("out/run.lock")));
  EXPECT_THAT(Train("out", over + Words{"sequence_parallel_size=2"}), Succeeds());
  EXPECT_FALSE(fs::exists(Path("out/run.lock")));
}

// What a run that was killed at its start leaves is no reason to call the folder full, and goes.
TEST_F(OutputFolderTest, LeavingsAreInNobodysWay) {
  Write("out/run.lock", "process 1 on elsewhere, since yesterday\n");
  Write("out/training_args.yaml.4711.tmp", "# Again");
  EXPECT_THAT(Train("out", {"max_steps=1"}), Succeeds());
  for (const char* left : {"run.lock", "training_args.yaml.4711.tmp"})
    EXPECT_FALSE(fs::exists(Path(std::string("out/") + left))) << left;
  Write("other/notes.txt", "mine");
  EXPECT_THAT(Train("other", {"max_steps=1"}),
              FailsWith(2, HasSubstr("output_dir: other is not empty")));
}

}  // namespace
}  // namespace moonring::testing
