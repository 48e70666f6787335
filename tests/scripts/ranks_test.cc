// Runs of several processes that fail or are killed: their messages, the exit code, and that no
// process is left.
//
// The cause is printed first, in one line with its rank; lines of ranks that failed as a
// consequence may follow. If a failure were not noticed, the other ranks would wait for at least an
// hour, and the test would reach its time limit.

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class RanksTest : public Workplace {
 protected:
  RanksTest() {
    WriteModel("model");
    WriteConfig("max_steps: 1000000\nlogging_steps: 5\noverwrite_output_dir: true");
  }

  static constexpr char kTraining[] = "step 5/1000000";

  // Returns the lines of stderr of a launcher or a single process, without their "moonring: ".
  static std::vector<std::string> Messages(const CommandResult& result) {
    std::vector<std::string> messages;
    std::istringstream text(result.err);
    for (std::string line; std::getline(text, line);) {
      if (line.rfind("moonring: ", 0) == 0) messages.push_back(line.substr(10));
    }
    return messages;
  }

  CommandResult WithEnvironment(std::map<std::string, std::string> environment,
                                std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"train", "config.yaml"});
    CommandOptions options = Options(more);
    options.environment.merge(environment);
    return RunMoonring(options);
  }

  static bool AllGone(const std::vector<pid_t>& pids) {
    return Await([&] { return std::none_of(pids.begin(), pids.end(), &Alive); });
  }

  // Returns Lua code that waits until all ranks have started. The calls after it then meet within a
  // short deadline, however long the start took.
  static std::string Gate(const std::string& ranks) {
    return R"(
    local function exists(name) local file = io.open(name) return file and file:close() end
    local ffi = require "ffi"
    ffi.cdef "int usleep(unsigned);"
    io.open("here" .. os.getenv "RANK", "w"):close()
    for rank = 0, )" +
           ranks + R"( - 1 do while not exists("here" .. rank) do ffi.C.usleep(1000) end end
    )";
  }

  void CloseGate(int ranks) const {
    for (int rank = 0; rank < ranks; ++rank)
      std::filesystem::remove(Path("here" + std::to_string(rank)));
  }
};

TEST_F(RanksTest, ADeadRankEndsTheRun) {
  struct Death {
    int rank, signal;
    const char* words;
  };
  for (const Death& death : {Death{0, SIGKILL, "rank 0 of 2: ended by signal 9"},
                             Death{1, SIGKILL, "rank 1 of 2: ended by signal 9"},
                             Death{1, SIGABRT, "rank 1 of 2: ended by signal 6"}}) {
    Command command(Options({"-n", "2", "train", "config.yaml", "sequence_parallel_size=2"}));
    ASSERT_TRUE(command.WaitForOutput(kTraining));
    const std::vector<pid_t> ranks = command.Children();
    ASSERT_EQ(ranks.size(), 2);
    kill(ranks[death.rank], death.signal);
    EXPECT_THAT(command.LeftBehind(), IsEmpty());
    const CommandResult result = command.Wait();
    EXPECT_EQ(result.exit_code, 1) << result.Describe();
    const std::vector<std::string> messages = Messages(result);
    ASSERT_FALSE(messages.empty()) << result.Describe();
    EXPECT_THAT(messages[0], StartsWith(death.words));
    EXPECT_LE(messages.size(), 2) << result.Describe();
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("frame #")));
  }
}

// Too many ranks are rejected before any process starts, with either launcher.
TEST_F(RanksTest, MoreRanksThanAMachineStarts) {
  const auto says =
      ::testing::AllOf(HasSubstr("100000 ranks are requested (sequence_parallel_size, "
                                 "or -n), and this machine starts at most "),
                       HasSubstr(": "));
  EXPECT_THAT(Run({"train", "config.yaml", "sequence_parallel_size=100000"}), FailsWith(2, says));
  EXPECT_THAT(Run({"-n", "100000", "train", "config.yaml"}), FailsWith(2, says));
}

TEST_F(RanksTest, RanksDieWithTheLauncher) {
  Command command(Options({"-n", "2", "train", "config.yaml", "sequence_parallel_size=2"}));
  ASSERT_TRUE(command.WaitForOutput(kTraining));
  const std::vector<pid_t> ranks = command.Children();
  ASSERT_EQ(ranks.size(), 2);
  command.Signal(SIGKILL);
  EXPECT_TRUE(AllGone(ranks));
  EXPECT_EQ(command.Wait().exit_code, 128 + SIGKILL);
}

TEST_F(RanksTest, ABusyPort) {
  const BusyPort busy;
  const auto says =
      HasSubstr("port " + busy.port() +
                " on this machine: Address already in use; set MASTER_PORT to a free port");
  EXPECT_THAT(WithEnvironment({{"RANK", "0"},
                               {"WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", busy.port()}}),
              FailsWith(1, says));
}

TEST_F(RanksTest, AnEnvironmentThatContradictsItself) {
  EXPECT_THAT(WithEnvironment({{"RANK", "0"}}), FailsWith(2, "RANK is set, but WORLD_SIZE is not"));
  EXPECT_THAT(WithEnvironment({{"WORLD_SIZE", "2"}}),
              FailsWith(2, "WORLD_SIZE is set, but RANK is not"));
  EXPECT_THAT(WithEnvironment({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
              FailsWith(2, HasSubstr("RANK='2': expected a number from 0 to 1")));
  EXPECT_THAT(WithEnvironment({{"RANK", "0"}, {"WORLD_SIZE", "two"}}),
              FailsWith(2, HasSubstr("WORLD_SIZE='two': expected a number")));
  EXPECT_THAT(WithEnvironment({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
              FailsWith(2, HasSubstr("MASTER_ADDR is not")));
  EXPECT_THAT(WithEnvironment({{"RANK", "0"},
                               {"WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", "99999"}}),
              FailsWith(2, HasSubstr("MASTER_PORT='99999'")));
}

// A waiting rank's message names the missing rank. Two such ranks are tested at the same time,
// because each waits for the whole deadline, which is long: connecting to the store uses the same
// one.
TEST_F(RanksTest, AMissingRank) {
  std::vector<std::unique_ptr<Command>> ranks;
  std::vector<std::string> ports;
  for (const char* rank : {"0", "1"}) {
    std::string port = FreePort();
    while (!ports.empty() && port == ports[0]) port = FreePort();
    ports.push_back(port);
    CommandOptions options = Options({"train", "config.yaml", "ddp_timeout=20"});
    options.environment.merge(std::map<std::string, std::string>{
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}});
    ranks.push_back(std::make_unique<Command>(options));
  }
  EXPECT_THAT(ranks[0]->Wait(), FailsWith(1, HasSubstr("rank 1 of 2 did not come")));
  EXPECT_THAT(ranks[1]->Wait(), FailsWith(1, HasSubstr("nobody answers at 127.0.0.1:" + ports[1])));
}

// The failure of a rank is reported immediately, even if it is rank 0, which serves the store until
// all others have received the message, and even if another rank is busy and has not received it.
TEST_F(RanksTest, ABusyRankHidesNoFailure) {
  Write("busy.lua", R"(
    local moonring = require "moonring"
    local mesh = moonring.comm.mesh { deadline = 3600 }
    if mesh:rank() == tonumber(arg[1]) then error "my own" end
    while true do end
  )");
  for (const std::string failing : {"0", "1"}) {
    EXPECT_THAT(Run({"-n", "2", "busy.lua", failing}),
                FailsWith(1, "rank " + failing + " of 2: busy.lua:4: my own"));
  }
}

// A rank may be alive but never reach a call, because of a loop or a slow disk. The waiting rank's
// message names it.
TEST_F(RanksTest, ALiveRankThatMissesACallIsNamed) {
  Write("elsewhere.lua", Gate("3") + R"(
    local mesh = require "moonring".comm.mesh { deadline = 5 }
    mesh:barrier()
    while mesh:rank() == 1 do ffi.C.usleep(10000) end
    mesh:sum(1)
  )");
  const auto says = HasSubstr("not done within 5s: rank 1 is alive but has not entered it");
  const CommandResult launched = Run({"-n", "3", "elsewhere.lua"});
  EXPECT_EQ(launched.exit_code, 1) << launched.Describe();
  EXPECT_THAT(launched.err, says);
  CloseGate(3);
  const std::string port = FreePort();
  std::vector<std::unique_ptr<Command>> ranks;
  for (const char* rank : {"0", "1", "2"}) {
    CommandOptions options = Options({"elsewhere.lua"});
    options.environment.merge(std::map<std::string, std::string>{
        {"RANK", rank}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}});
    ranks.push_back(std::make_unique<Command>(options));
  }
  for (const int rank : {0, 2}) {
    const CommandResult result = ranks[rank]->Wait();
    EXPECT_EQ(result.exit_code, 1) << result.Describe();
    EXPECT_THAT(result.err, says);
  }
  ranks[1]->Signal(SIGKILL);
}

TEST_F(RanksTest, RanksWithOtherConfigurations) {
  const std::string port = FreePort();
  const auto expect_refused = [&](const std::string& first, const std::string& second,
                                  const std::string& words) {
    SCOPED_TRACE(words);
    std::vector<std::unique_ptr<Command>> ranks;
    for (const int rank : {0, 1}) {
      CommandOptions options = Options({"train", "config.yaml", rank == 0 ? first : second});
      options.environment.merge(std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                                   {"WORLD_SIZE", "2"},
                                                                   {"MASTER_ADDR", "127.0.0.1"},
                                                                   {"MASTER_PORT", port}});
      ranks.push_back(std::make_unique<Command>(options));
    }
    for (const auto& rank : ranks) EXPECT_THAT(rank->Wait(), FailsWith(2, HasSubstr(words)));
  };
  expect_refused(
      "learning_rate=0.001", "learning_rate=0.002",
      "ranks were given other configurations: learning_rate is 0.001 on rank 0, 0.002 on rank 1");
  expect_refused("finetuning_type=full", "finetuning_type=lora",
                 "finetuning_type is full on rank 0, lora on rank 1");
  expect_refused("sequence_parallel_size=1", "sequence_parallel_size=2",
                 "sp is 1 on a rank, and 2 on another");
}

TEST_F(RanksTest, RanksThatTheGroupsDoNotDivide) {
  const auto says = [](int sp, int ranks) {
    return FailsWith(2, "sequence_parallel_size: " + std::to_string(sp) +
                            " does not divide the number of ranks, " + std::to_string(ranks));
  };
  EXPECT_THAT(Run({"-n", "3", "train", "config.yaml", "sequence_parallel_size=2"}), says(2, 3));
  EXPECT_THAT(Run({"-n", "2", "train", "config.yaml", "sequence_parallel_size=4"}), says(4, 2));
  EXPECT_THAT(WithEnvironment({{"RANK", "0"},
                               {"WORLD_SIZE", "3"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", "29999"}},
                              {"sequence_parallel_size=2"}),
              says(2, 3));
}

// If all ranks have the same error, it is printed once; an error of one rank is printed with its
// number.
TEST_F(RanksTest, EachMessageOnce) {
  WriteConfig("template: smolm2");
  EXPECT_THAT(Run({"train", "config.yaml", "sequence_parallel_size=2"}),
              FailsWith(2, HasSubstr("no 'smolm2'")));
  Write("one.lua",
        "local moonring = require 'moonring'\nif moonring.comm.mesh {}:rank() == 1 then error 'my "
        "own' end\n");
  EXPECT_THAT(Run({"-n", "2", "one.lua"}), FailsWith(1, "rank 1 of 2: one.lua:2: my own"));
}

}  // namespace
}  // namespace moonring::testing
