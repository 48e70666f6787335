// Only one run may use an output_dir at a time; and what happens to files that other runs left in
// it.

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OutputFolderTest : public ResumedRuns {};

TEST_F(OutputFolderTest, BelongsToOneRunAtATime) {
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

// Files of a run that was killed at its start do not count as contents of the folder, and are
// removed.
TEST_F(OutputFolderTest, LeftoverFilesDoNotMatter) {
  Write("out/run.lock", "process 1 on elsewhere, since yesterday\n");
  Write("out/training_args.yaml.4711.tmp", "# Again");
  EXPECT_THAT(Train("out", {"max_steps=1"}), Succeeds());
  for (const char* left : {"run.lock", "training_args.yaml.4711.tmp"})
    EXPECT_FALSE(fs::exists(Path(std::string("out/") + left))) << left;
  Write("other/notes.txt", "mine");
  EXPECT_THAT(Train("other", {"max_steps=1"}),
              FailsWith(2, HasSubstr("output_dir: other is not empty")));
}

// A start that is rejected, for whatever reason and however late, leaves the folder unchanged, so
// that the existing run can be resumed.
TEST_F(OutputFolderTest, ARefusedStartChangesNothing) {
  Write("data/dataset_info.json", R"({"broken": {"file_name": "broken.jsonl"}})");
  Write("data/broken.jsonl", "{oh");
  ASSERT_THAT(Train("out", {"max_steps=2"}), Succeeds());
  const auto contents = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(Path("out"))) {
      if (entry.is_regular_file()) files[entry.path().string()] = ReadText(entry.path().string());
    }
    return files;
  };
  const auto before = contents();
  for (const Words& wrong :
       std::vector<Words>{{"dataset=unknown"},
                          {"template=nosuch"},
                          {"memory_limit=1MB", "tokenized_path=kept"},
                          {"model_name_or_path=out/nowhere"},
                          {"finetuning_type=lora", "lora_target=nosuch"},
                          {"finetuning_type=lora", "lora_target=nosuch", "offload_optimizer=disk"},
                          {"objective=none.lua"},
                          {"streaming=true", "dataset=broken", "dataset_dir=data"},
                          {"cutoff_len=1"}}) {
    const CommandResult refused =
        Train("out", Words{"max_steps=4", "overwrite_output_dir=true"} + wrong);
    EXPECT_EQ(refused.exit_code, 2) << wrong[0] << refused.Describe();
    EXPECT_EQ(contents(), before) << wrong[0];
    EXPECT_EQ(Train("new/below", Words{"max_steps=4"} + wrong).exit_code, 2);
    EXPECT_FALSE(fs::exists(Path("new"))) << wrong[0];
    EXPECT_FALSE(fs::exists(Path("kept"))) << wrong[0];
  }
  EXPECT_THAT(Train("out", {"max_steps=3", "resume_from_checkpoint=true"}), Succeeds());
}

// Logs of a run that was killed before its first checkpoint do not block a new run.
TEST_F(OutputFolderTest, OnlyLogsAreBegunAgain) {
  for (const char* log : {"out/trainer_log.jsonl", "out/training_args.yaml", "out/train.log"})
    Write(log, "");
  const CommandResult begun = Train("out", {"max_steps=1"});
  ASSERT_THAT(begun, Succeeds());
  EXPECT_THAT(begun.err, HasSubstr("output_dir: out has only logs"));
}

// Repeating the same command resumes the run, as in LLaMA-Factory. In the folder of another run,
// the error names the key with which the run starts from that checkpoint anyway.
TEST_F(OutputFolderTest, TheSameCommandResumes) {
  ASSERT_THAT(Train("out", {"max_steps=4", "save_steps=2"}), Succeeds());
  fs::remove_all(Path("out/checkpoint-4"));
  const CommandResult again = Train("out", {"max_steps=4", "save_steps=2"});
  ASSERT_THAT(again, Succeeds());
  EXPECT_THAT(again.err, AllOf(HasSubstr("output_dir: out holds checkpoints"),
                               HasSubstr("goes on after step 2, from out/checkpoint-2")));
  ASSERT_THAT(Train("unbroken", {"max_steps=4", "save_steps=2"}), Succeeds());
  ExpectSameRun("unbroken", "out");
  ASSERT_THAT(Train("out", {"max_steps=1", "overwrite_output_dir=true", "save_strategy=no"}),
              Succeeds());
  EXPECT_THAT(Train("unbroken", {"max_steps=4", "save_steps=2", "cutoff_len=100"}),
              FailsWith(2, AllOf(HasSubstr("cutoff_len was 160, is 100"),
                                 HasSubstr("true starts from the beginning"))));
  EXPECT_THAT(Train("out", {"max_steps=4", "resume_from_checkpoint=true"}),
              FailsWith(2, HasSubstr("of an earlier run in this folder; resume_from_checkpoint: "
                                     "out/checkpoint-4 resumes from it anyway")));
}

}  // namespace
}  // namespace moonring::testing
