// One of four ranks is killed, stopped or raises an error in each phase of a run: every other rank
// names
// that rank and exits, and no process or file is left.
//
// By default, each phase is tested with one kill and some of the other faults. MOONRING_FAULTS=all
// (or one of kill, throw, stop) adds every rank, with the launcher and with torchrun's environment.
// A stopped rank is detected by a deadline of ten seconds; all other faults are detected at once.

#include <signal.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int kRanks = 4;

struct Fault {
  std::string phase, kind;
  int rank;
  bool launcher;
  std::string Name() const {
    return phase + " " + kind + " rank " + std::to_string(rank) +
           (launcher ? " by the launcher" : " under torchrun");
  }
};

// Returns the names in /dev/shm that belong to LibTorch, Gloo and Moonring, except the folders of
// fuzz tests, which may run at the same time.
std::set<std::string> SharedMemory() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.rfind("moonring_fuzz_", 0) == 0) continue;
    for (const char* ours : {"torch", "gloo", "moonring"}) {
      if (name.find(ours) != std::string::npos) names.insert(name);
    }
  }
  return names;
}

class FaultsTest : public Workplace, public ::testing::WithParamInterface<Fault> {
 protected:
  CommandOptions Training(const Fault& fault, const std::string& struck,
                          const std::string& port) const {
    const std::string home = Runfile("tests/golden/stages");
    std::vector<std::string> words = {
        Runfile("tests/scripts/faulty_rank.lua"), fault.phase, fault.kind,
        std::to_string(fault.rank), struck, "model_name_or_path=" + home + "/model",
        "dataset_dir=" + home + "/data", "stage=sft", "dataset=talks", "output_dir=out",
        "overwrite_output_dir=true", "finetuning_type=full", "template=chatml", "cutoff_len=160",
        "per_device_train_batch_size=2", "sequence_parallel_size=2", "logging_steps=1",
        "max_steps=4", "save_steps=1", "save_total_limit=1", "val_size=8", "eval_strategy=steps",
        "eval_steps=1",
        // A dead rank must be noticed at once, so its deadline is long; a rank that is stopped or
        // never joined is noticed only by the deadline.
        fault.kind == "stop" || fault.phase == "birth" ? "ddp_timeout=10" : "ddp_timeout=1800"};
    if (fault.launcher) words.insert(words.begin(), {"-n", "4"});
    CommandOptions options = Options(words);
    options.environment["MASTER_PORT"] = port;
    return options;
  }

  static double Since(const fs::file_time_type& then) {
    return std::chrono::duration<double>(fs::file_time_type::clock::now() - then).count();
  }

  // Returns a matcher for a message that names the failed rank, by its number in the world or in
  // the group that noticed.
  static auto Names(int rank) {
    const std::string number = std::to_string(rank);
    return AnyOf(HasSubstr("rank " + number + " has"),
                 HasSubstr("rank " + number + " is stopped or out of reach"),
                 HasSubstr("rank " + number + " of 4 did not come"),
                 HasSubstr("rank " + number + " did not"));
  }

  void Strike(const Fault& fault) const {
    const std::string struck = Path("struck"), port = FreePort();
    const std::set<std::string> shared = SharedMemory();
    std::vector<std::unique_ptr<Command>> commands;
    for (int rank = 0; rank < (fault.launcher ? 1 : kRanks); ++rank) {
      CommandOptions options = Training(fault, struck, port);
      if (!fault.launcher)
        options.environment.merge(std::map<std::string, std::string>{
            {"RANK", std::to_string(rank)}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}});
      commands.push_back(std::make_unique<Command>(options));
    }
    Await([&] { return fs::exists(struck) || !Alive(commands[0]->pid()); });
    ASSERT_TRUE(fs::exists(struck)) << commands[0]->Wait().Describe();
    const auto when = fs::last_write_time(struck);

    double took = 0.0;
    std::string first;
    for (int rank = 0; rank < static_cast<int>(commands.size()); ++rank) {
      if (!fault.launcher && rank == fault.rank) continue;
      EXPECT_THAT(commands[rank]->LeftBehind(), IsEmpty()) << "of rank " << rank;
      const CommandResult result = commands[rank]->Wait();
      took = std::max(took, Since(when));
      EXPECT_FALSE(result.timed_out) << result.Describe();
      if (fault.phase == "save" && fault.kind == "throw") {  // costs that checkpoint alone
        EXPECT_EQ(result.exit_code, 0) << result.Describe();
        continue;
      }
      EXPECT_EQ(result.exit_code, 1) << result.Describe();
      const size_t message = result.err.find("moonring: ");
      ASSERT_NE(message, std::string::npos) << result.Describe();
      first = result.err.substr(message + 10, result.err.find('\n', message) - message - 10);
      if (!fault.launcher) {
        if (fault.rank ==
            0) {  // it served the store: where it died before anyone came there is nobody to ask
          EXPECT_THAT(first, AnyOf(HasSubstr("rank 0"), HasSubstr("nobody answers")))
              << "rank " << rank;
        } else {
          EXPECT_THAT(first, Names(fault.rank)) << "rank " << rank;
        }
      } else if (fault.kind == "kill") {
        EXPECT_THAT(first,
                    StartsWith("rank " + std::to_string(fault.rank) + " of 4: ended by signal 9"));
      } else if (fault.kind == "throw") {
        EXPECT_THAT(first,
                    StartsWith("rank " + std::to_string(fault.rank) + " of 4: a fault of its own"));
      } else {  // rank 0 serves the store
        EXPECT_THAT(first, AnyOf(Names(fault.rank),
                                 HasSubstr(fault.rank == 0 ? "nobody answers" : "no such words")));
      }
    }
    if (!fault.launcher) {
      if (fault.kind == "stop") commands[fault.rank]->Signal(SIGKILL);
      EXPECT_THAT(commands[fault.rank]->LeftBehind(), IsEmpty()) << "of the struck rank";
      commands[fault.rank]->Wait();
    }
    std::printf("| %-44s | %5.1f s | %.110s\n", fault.Name().c_str(), took, first.c_str());
    for (const std::string& name : SharedMemory())
      EXPECT_TRUE(shared.contains(name)) << "/dev/shm/" << name << " is left";
  }
};

// Returns one kill and some other faults for each phase, and those that MOONRING_FAULTS requests.
std::vector<Fault> Faults() {
  std::vector<Fault> faults;
  std::set<std::string> names;
  const auto add = [&](const Fault& fault) {
    if (names.insert(fault.Name()).second) faults.push_back(fault);
  };
  const char* const kinds[] = {"kill", "throw", "stop"};
  const char* const phases[] = {"birth", "start", "forward",   "backward",
                                "sum",   "save",  "evaluation"};
  int turn = 0;
  for (const std::string kind : kinds) {
    for (const char* phase : phases) {
      ++turn;
      if (kind == "kill" || turn % 3 == 0) add({phase, kind, turn % kRanks, turn % 2 == 0});
    }
  }
  for (const bool launcher : {true, false})
    add({"forward", "stop", 0, launcher});  // rank 0 serves the store
  const char* set = std::getenv("MOONRING_FAULTS");
  const std::string wanted = set == nullptr ? "" : set;
  for (const std::string kind : kinds) {
    if (wanted != "all" && wanted != kind) continue;
    for (const char* phase : phases) {
      for (int rank = 0; rank < kRanks; ++rank) {
        for (const bool launcher : {true, false}) add({phase, kind, rank, launcher});
      }
    }
  }
  return faults;
}

TEST_P(FaultsTest, EveryOtherRankNamesTheOne) { Strike(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, FaultsTest, ::testing::ValuesIn(Faults()), [](const auto& info) {
  std::string name = info.param.Name();
  for (char& letter : name) letter = std::isalnum(letter) ? letter : '_';
  return name;
});

}  // namespace
}  // namespace moonring::testing
