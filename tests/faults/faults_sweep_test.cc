// Runs with planned faults of file operations: the N-th open, write, fsync, rename, ... in
// output_dir fails with an errno, once or from then on, or the process is killed there
// (failing_files.c). Each run ends with an exit code and a message; resumed without the fault, it
// equals the uninterrupted run bit for bit.
//
// MOONRING_FAULT_POINTS is the number of values of N for each operation and kind of fault: 1, 2, 3,
// 5, 8, ... as long as the fault is reached. The test prints a table of the faults that it tried.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* name;
  Words words, options;
};

const std::vector<Kind>& Kinds() {
  static const auto* const kinds = new std::vector<Kind>{
      {"full", {}, {}},
      {"lora", {"finetuning_type=lora", "lora_dropout=0.1", "report_html=true"}, {}},
      {"dpo", {"stage=dpo", "dataset=pairs", "precompute_ref_log_probs=true"}, {}},
      {"stream", {"streaming=true", "buffer_size=7"}, {}},
      {"schedule_free",
       {"optim=schedule_free_adamw", "val_size=4", "eval_strategy=steps", "eval_steps=1",
        "load_best_model_at_end=true"},
       {}},
      {"zero3_on_2", {"zero_stage=3", "per_device_train_batch_size=1"}, {"-n", "2"}},
      {"sp2", {"sequence_parallel_size=2"}, {}},
      {"dp2_sp2",
       {"sequence_parallel_size=2", "zero_stage=2", "per_device_train_batch_size=1"},
       {"-n", "4"}},
  };
  return *kinds;
}

constexpr const char* kOperations[] = {"open", "write", "fsync",  "rename",
                                       "link", "mkdir", "unlink", "truncate"};

class FaultsSweepTest : public ResumedRuns, public ::testing::WithParamInterface<size_t> {
 protected:
  struct Count {
    int tried = 0, held = 0;
  };

  // Runs once with the fault, and once more without it to resume. Returns whether the fault was
  // reached. `rank`: the fault only occurs on this rank; "": in every process.
  bool Try(const Kind& kind, const std::string& fault, const std::string& rank, Count& count) {
    SCOPED_TRACE(fault + (rank.empty() ? "" : " on rank " + rank));
    const std::string out = "broken";
    fs::remove_all(Path(out));
    fs::remove(Path("fired"));
    CommandOptions options = Options(CommandOf(out, kind.words + kLength, kind.options));
    options.environment["LD_PRELOAD"] = Runfile("tests/faults/failing_files.so");
    options.environment["FAULT"] = fault;
    options.environment["FAULT_UNDER"] = out;
    options.environment["FAULT_FIRED"] = Path("fired");
    if (!rank.empty()) options.environment["FAULT_RANK"] = rank;
    const CommandResult broken = RunMoonring(options);
    if (!fs::exists(Path("fired"))) return false;
    ++count.tried;
    const bool is_kill = fault.ends_with("kill");
    const auto failures = [] {
      return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
    };
    const int before = failures();
    EXPECT_FALSE(broken.timed_out) << broken.Describe();
    if (!is_kill) {
      EXPECT_LE(broken.exit_code, 2) << broken.Describe();
      EXPECT_TRUE(broken.exit_code == 0 || broken.err.find("moonring: ") != std::string::npos);
    }
    const CommandResult again =
        Train(out, kind.words + kLength + Words{"resume_from_checkpoint=auto"}, kind.options);
    EXPECT_THAT(again, Succeeds()) << broken.Describe();
    if (again.exit_code == 0) ExpectSameRun(kind.name, out);
    for (const auto& entry : fs::directory_iterator(Path(out))) {
      const std::string name = entry.path().filename();
      EXPECT_FALSE(name.ends_with(".partial") || name.ends_with(".removed") ||
                   name.ends_with(".tmp"))
          << name;
    }
    count.held += failures() == before ? 1 : 0;
    return true;
  }

  void Sweep(const Kind& kind, int points) {
    ASSERT_THAT(Train(kind.name, kind.words + kLength, kind.options), Succeeds());
    const bool has_ranks =
        kind.words != Words{} && (kind.options.size() > 0 || kind.name == std::string("sp2"));
    for (const std::string operation : kOperations) {
      Count count;
      for (const std::string what : {"ENOSPC", "EIO", "kill"}) {
        for (int a = 1, b = 2, point = 0; point < points; ++point) {
          const std::string fault = operation + ":" + std::to_string(a) + ":" + what;
          const std::string rank = has_ranks ? std::to_string(point % 2) : "";
          if (!Try(kind, fault, rank, count)) break;
          a = std::exchange(b, a + b);
        }
      }
      Try(kind, operation + ":4+:ENOSPC", "", count);
      std::printf("| %s | %s | %d | %d |\n", kind.name, operation.c_str(), count.tried, count.held);
      std::fflush(stdout);
      EXPECT_EQ(count.held, count.tried);
    }
  }

  const Words kLength = {"max_steps=4", "save_steps=2", "save_total_limit=1"};
};

int Points() {
  const char* const asked = std::getenv("MOONRING_FAULT_POINTS");
  return asked != nullptr ? std::atoi(asked) : 2;
}

TEST_P(FaultsSweepTest, ResumedItIsTheUnbrokenRun) { Sweep(Kinds()[GetParam()], Points()); }

INSTANTIATE_TEST_SUITE_P(Kinds, FaultsSweepTest, ::testing::Range<size_t>(0, Kinds().size()),
                         [](const auto& info) { return std::string(Kinds()[info.param].name); });

// Some of the faults, for regular test runs.
TEST_F(FaultsSweepTest, AFewPoints) {
  const Kind& kind = Kinds()[1];
  ASSERT_THAT(Train(kind.name, kind.words + kLength, kind.options), Succeeds());
  Count count;
  for (const char* const fault :
       {"write:9:ENOSPC", "rename:1:EIO", "link:6:kill", "fsync:3:kill", "write:5+:ENOSPC"})
    EXPECT_TRUE(Try(kind, fault, "", count)) << fault << " was not reached";
  EXPECT_EQ(count.held, count.tried);
}

}  // namespace
}  // namespace moonring::testing
