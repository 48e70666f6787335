// Signals that ask a run to save (SIGUSR1), or to save and exit (SIGINT, SIGTERM, SIGHUP), sent to
// the process that was started, to one rank, and to the whole process group, for each way of
// starting ranks. Resumed runs are compared with uninterrupted ones.
//
// (tests/lua/launcher_test.cc tests a terminal's keys; signal_count_test.cc tests which signal
// counts as a second one.)

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

enum class To { kStarted, kRank, kGroup };

struct Way {
  std::string name;
  Words words, options;
  int processes = 1;  // that are started: 2 as torchrun does
  bool launcher = true;
};

const std::vector<Way>& Ways() {
  static const auto* ways =
      new std::vector<Way>{{"train", {"sequence_parallel_size=2"}, {}},
                           {"n2", {"sequence_parallel_size=2"}, {"-n", "2"}},
                           {"restarts", {"max_restarts=1"}, {}},
                           {"alone", {}, {}, 1, false},
                           {"torchrun", {"sequence_parallel_size=2"}, {}, 2, false}};
  return *ways;
}

std::string NameOf(int signal) {
  return signal == SIGINT    ? "SIGINT"
         : signal == SIGTERM ? "SIGTERM"
         : signal == SIGHUP  ? "SIGHUP"
                             : "SIGUSR1";
}

class SignalsTest : public ResumedRuns, public ::testing::WithParamInterface<Way> {
 protected:
  // Starts a run without an end, at a constant learning rate, so that up to any step it equals a
  // run that ends there.
  std::vector<std::unique_ptr<Command>> Start(const std::string& out) const {
    const Way& way = GetParam();
    const Words words = CommandOf(
        out,
        way.words + Words{"max_steps=1000000", "save_strategy=no", "lr_scheduler_type=constant"},
        way.options);
    std::vector<std::unique_ptr<Command>> commands;
    const std::string port = way.processes > 1 ? FreePort() : "";
    for (int rank = 0; rank < way.processes; ++rank) {
      CommandOptions options = Options(words);
      if (way.processes > 1) {
        options.environment.merge(
            std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                               {"WORLD_SIZE", std::to_string(way.processes)},
                                               {"MASTER_ADDR", "127.0.0.1"},
                                               {"MASTER_PORT", port}});
      }
      commands.push_back(std::make_unique<Command>(options));
    }
    return commands;
  }

  static void Send(const std::vector<std::unique_ptr<Command>>& commands, To to, int signal) {
    if (to == To::kGroup) {
      for (const auto& command : commands) kill(-command->pid(), signal);
    } else if (to == To::kStarted) {
      commands.front()->Signal(signal);
    } else if (GetParam().launcher) {
      kill(commands.front()->Children().back(), signal);
    } else {
      commands.back()->Signal(signal);
    }
  }

  // Returns the step of the only checkpoint in the folder.
  int SavedStep(const std::string& out) const {
    int step = 0;
    for (const auto& entry : fs::directory_iterator(Path(out))) {
      const std::string name = entry.path().filename();
      if (name.rfind("checkpoint-", 0) != 0) continue;
      EXPECT_TRUE(fs::exists(entry.path() / "manifest.json")) << name;
      step = std::max(step, std::stoi(name.substr(11)));
    }
    return step;
  }
};

TEST_P(SignalsTest, SaveAndEnd) {
  for (const To to : {To::kStarted, To::kRank, To::kGroup}) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
      const std::string out =
          GetParam().name + "_" + std::to_string(static_cast<int>(to)) + "_" + NameOf(signal);
      SCOPED_TRACE(out);
      const auto commands = Start(out);
      ASSERT_TRUE(commands[0]->WaitForOutput("step 2/")) << commands[0]->Wait().Describe();
      Send(commands, to, SIGUSR1);
      ASSERT_TRUE(commands[0]->WaitForOutput("SIGUSR1: saved after step"))
          << commands[0]->Wait().Describe();
      Send(commands, to, signal);
      for (const auto& command : commands) {
        const CommandResult result = command->Wait();
        EXPECT_EQ(result.exit_code, 128 + signal) << result.Describe();
        EXPECT_THAT(result.err, Not(HasSubstr("moonring: "))) << "nothing failed";
        if (command != commands[0]) continue;
        EXPECT_THAT(result.err,
                    AllOf(HasSubstr(NameOf(signal) + ": saved after step "),
                          HasSubstr("resume_from_checkpoint: true resumes from there")));
        if (to == To::kStarted) {
          EXPECT_THAT(result.err,
                      HasSubstr(NameOf(signal) +
                                ": the run is saved and ends at the border of the next step"));
        }
      }
      EXPECT_GT(SavedStep(out), 1);
      EXPECT_FALSE(fs::exists(Path(out + "/run.lock")));
    }
  }
}

TEST_P(SignalsTest, TheRunResumesBitForBit) {
  const auto commands = Start("out");
  ASSERT_TRUE(commands[0]->WaitForOutput("step 2/")) << commands[0]->Wait().Describe();
  Send(commands, To::kGroup, SIGINT);
  for (const auto& command : commands) command->Wait();
  const Words words = GetParam().words + Words{"max_steps=" + std::to_string(SavedStep("out") + 2),
                                               "save_strategy=no", "lr_scheduler_type=constant"};
  const Words options = GetParam().processes > 1 ? Words{"-n", "2"} : GetParam().options;
  ASSERT_THAT(Train("out", words + Words{"resume_from_checkpoint=true"}, options), Succeeds());
  ASSERT_THAT(Train("unbroken", words, options), Succeeds());
  EXPECT_TRUE(ReadText(Path("out/model.safetensors")) ==
              ReadText(Path("unbroken/model.safetensors")));
  const json broken = Steps("out"), unbroken = Steps("unbroken");
  ASSERT_EQ(broken.size(), unbroken.size());
  for (size_t i = 0; i < broken.size(); ++i) {
    for (const char* key : {"current_steps", "loss", "grad_norm", "epoch", "tokens"})
      EXPECT_EQ(broken[i].at(key), unbroken[i].at(key)) << key << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SignalsTest, ::testing::ValuesIn(Ways()),
                         [](const auto& info) { return info.param.name; });

// A signal after the last step starts no further step: the run saves its results and ends
// successfully.
TEST_F(ResumedRuns, AfterTheLastStepARunEndsByItself) {
  Write("late.lua", R"(
    local moonring = require "moonring"
    local ffi = require "ffi"
    ffi.cdef "int getpid(void); int kill(int, int);"
    local Model = debug.getregistry()["moonring.classes"].Model.__index
    local save = Model.save
    function Model.save(...)
      ffi.C.kill(ffi.C.getpid(), 15)
      return save(...)
    end
    dofile(moonring.system.script_path "train")
  )");
  Words command = CommandOf("out", {"max_steps=1", "save_strategy=no"});
  *std::find(command.begin(), command.end(), "train") = "late.lua";
  const CommandResult result = Run(command);
  EXPECT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("SIGTERM: the run is at its end: it is saved and ends by "
                                    "itself; once more ends it now"));
  EXPECT_TRUE(fs::exists(Path("out/model.safetensors")));
}

// Without a run, a signal ends a script at once, because there is nothing to save: in a script that
// does not handle signals, and in one that has opened a run and closed it.
TEST_F(ResumedRuns, WithoutARunToSaveTheyEndAtOnce) {
  Write("caught.lua", R"(
    local moonring = require "moonring"
    local mesh = moonring.comm.mesh {}
    if arg[1] == "released" then
      moonring.system.catch_preemption()
      moonring.system.release_preemption()
    end
    mesh:barrier()
    if mesh:rank() == 0 then
      io.stderr:write "ready\n"
    end
    while true do end
  )");
  for (const char* kind : {"never", "released"}) {
    for (const Words& options : {Words{}, Words{"-n", "2"}}) {
      for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        Command command(Options(options + Words{"caught.lua", kind}));
        ASSERT_TRUE(command.WaitForOutput("ready"));
        command.Signal(signal);
        const CommandResult result = command.Wait();
        EXPECT_EQ(result.exit_code, 128 + signal) << kind << "\n" << result.Describe();
      }
    }
  }
}

}  // namespace
}  // namespace moonring::testing
