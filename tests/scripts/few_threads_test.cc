// A process that cannot start another thread reports it in one message and exits, at any point of a
// run.

#include <filesystem>
#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

class FewThreadsTest : public Workplace {
 protected:
  FewThreadsTest() {
    WriteModel("model");
    WriteConfig("overwrite_output_dir: true\nmax_steps: 2\nsave_steps: 1");
  }

  CommandResult Train(int threads, std::vector<std::string> options) const {
    options.insert(options.end(), {"train", "config.yaml"});
    CommandOptions command = Options(std::move(options));
    command.environment["LD_PRELOAD"] =
        std::filesystem::absolute(Runfile("tests/testing/libfew_threads.so"));
    command.environment["FEW_THREADS"] = std::to_string(threads);
    return RunMoonring(command);
  }

  // Runs with 0, 1, 2, ... allowed threads until the run succeeds. Ranks that lose a peer also end,
  // so only the first line of the output states the cause.
  void ExpectWordsUntilItRuns(const std::vector<std::string>& options) const {
    for (int threads = 0; threads < 100; ++threads) {
      SCOPED_TRACE(threads);
      const CommandResult result = Train(threads, options);
      ASSERT_FALSE(result.timed_out) << result.Describe();
      if (result.exit_code == 0) {
        EXPECT_GT(threads, 0);
        return;
      }
      EXPECT_EQ(result.exit_code, 1) << result.Describe();
      const size_t first = result.err.find("moonring: ");
      ASSERT_NE(first, std::string::npos) << result.Describe();
      EXPECT_THAT(
          result.err.substr(first, result.err.find('\n', first) - first),
          HasSubstr(
              "no further thread can be started: a limit on processes and threads is reached"));
    }
    FAIL() << "no number of threads is enough";
  }
};

TEST_F(FewThreadsTest, ARankAlone) { ExpectWordsUntilItRuns({}); }

TEST_F(FewThreadsTest, Ranks) { ExpectWordsUntilItRuns({"-n", "2"}); }

}  // namespace
}  // namespace moonring::testing
