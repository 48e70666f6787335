// Runs on a machine with problems: closed file descriptors, output that nobody reads, model files
// that change or are truncated, folders that disappear, files in the way. No data is lost, and each
// problem is reported.

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class MachineTest : public ResumedRuns {
 protected:
  // The command of a run with its own copy of the model, which the test changes.
  Words OwnModel(const std::string& out, const Words& more, const Words& options = {}) const {
    fs::create_directories(Path("model"));
    for (const auto& file : fs::directory_iterator(Runfile("tests/golden/stages/model"))) {
      fs::copy_file(file, Path("model/" + file.path().filename().string()),
                    fs::copy_options::overwrite_existing);
      fs::permissions(Path("model/" + file.path().filename().string()), fs::perms::owner_all);
    }
    return CommandOf(out, more + Words{"model_name_or_path=model"}, options);
  }

  // Multiplies each weight in the model file by `factor`, in place.
  void Scale(float factor) const {
    std::fstream file(Path("model/model.safetensors"),
                      std::ios::in | std::ios::out | std::ios::binary);
    uint64_t header = 0;
    file.read(reinterpret_cast<char*>(&header), 8);
    std::string bytes = ReadText(Path("model/model.safetensors")).substr(8 + header);
    std::vector<float> weights(bytes.size() / sizeof(float));
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(weights.data()));
    for (float& weight : weights) weight *= factor;
    file.seekp(static_cast<std::streamoff>(8 + header));
    file.write(reinterpret_cast<const char*>(weights.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
};

TEST_F(MachineTest, ClosedDescriptorsBecomeNoFiles) {
  const Words words = {"max_steps=3", "offload_optimizer=disk"};
  ASSERT_THAT(Train("whole", words), Succeeds());
  CommandOptions options = Options(CommandOf("closed", words));
  options.closed = true;
  EXPECT_EQ(RunMoonring(options).exit_code, 0);
  ExpectSameRun("whole", "closed");
}

TEST_F(MachineTest, UnreadOutputEndsNothing) {
  ASSERT_THAT(Train("whole", {"max_steps=3"}), Succeeds());
  for (const Words& ranks : {Words{}, Words{"-n", "2"}}) {
    CommandOptions options = Options(CommandOf("unread", {"max_steps=3"}, ranks));
    options.unread = true;
    EXPECT_EQ(RunMoonring(options).exit_code, 0);
    if (ranks.empty()) ExpectSameRun("whole", "unread");
    fs::remove_all(Path("unread"));
  }
  // The run receives SIGINT, a request to save and end, and nobody reads its output: as with Ctrl-C
  // in `moonring train ... 2>&1 | tee log`.
  CommandOptions options = Options(Paused("3", CommandOf("asked", {"max_steps=100"})));
  options.unread = true;
  Command command(options);
  // The run checks for signals in each step before it saves, so this signal, which is sent after
  // step 2's save, is noticed in step 3.
  ASSERT_TRUE(Await([&] { return fs::exists(Path("asked/checkpoint-2/manifest.json")); }));
  command.Signal(SIGINT);
  LetGo(3);
  EXPECT_EQ(command.Wait().exit_code, 128 + SIGINT);
  EXPECT_TRUE(fs::exists(Path("asked/checkpoint-3/manifest.json")));
}

// A script that prints endlessly ends when nobody reads its output, like any program in a pipe.
TEST_F(MachineTest, AScriptEndsWhereItsOutputIsNotRead) {
  const std::string host = fs::absolute("moonring");
  Write("run.sh", host + " -e 'while true do print(1) end' | head -1; exit ${PIPESTATUS[0]}");
  const int status = std::system(("bash " + Path("run.sh") + " >/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGPIPE);
}

TEST_F(MachineTest, ATruncatedModelEndsTheRunWithAMessage) {
  for (const Words& ranks : {Words{}, Words{"-n", "2"}}) {
    Command command(Options(Paused(
        "2", OwnModel("out", {"max_steps=4", "finetuning_type=lora", "overwrite_output_dir=true"},
                      ranks))));
    ASSERT_TRUE(command.WaitForOutput("waits before step 2")) << command.Wait().Describe();
    fs::resize_file(Path("model/model.safetensors"), 0);
    LetGo(2);
    const CommandResult result = command.Wait();
    EXPECT_EQ(result.exit_code, 1) << result.Describe();
    EXPECT_THAT(result.err, HasSubstr("model/model.safetensors: cannot be read any more"));
    fs::remove(Path("go2"));
  }
}

TEST_F(MachineTest, AModelThatIsWrittenIntoIsSaidAtTheNextSave) {
  Command command(Options(Paused("2", OwnModel("out", {"max_steps=3", "finetuning_type=lora"}))));
  ASSERT_TRUE(command.WaitForOutput("waits before step 2")) << command.Wait().Describe();
  Scale(1.5f);
  LetGo(2);
  const CommandResult result = command.Wait();
  EXPECT_THAT(result, Succeeds());
  EXPECT_THAT(result.err,
              HasSubstr("warning: model/model.safetensors has changed while the run reads it"));
}

TEST_F(MachineTest, AnotherBaseIsRefused) {
  const std::vector<std::pair<Words, std::string>> kinds = {
      {{"finetuning_type=lora"}, "the weights in model.safetensors are other ones than the run"},
      {{"stage=dpo", "dataset=pairs"},
       "the weights in model.safetensors are other ones than the run"},
      {{"finetuning_type=full"}, ""}};
  for (const auto& [words, refusal] : kinds) {
    fs::remove_all(Path("out"));
    const Words all = words + Words{"max_steps=2"};
    ASSERT_THAT(Run(OwnModel("out", all)), Succeeds());
    fs::remove_all(Path("out/checkpoint-2"));
    Scale(1.1f);
    const Words again =
        CommandOf("out", all + Words{"model_name_or_path=model", "resume_from_checkpoint=true"});
    const CommandResult result = Run(again);
    if (refusal.empty()) {  // the whole file is in the checkpoint
      EXPECT_THAT(result, Succeeds());
    } else {
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_THAT(result.err, HasSubstr(refusal));
    }
    nlohmann::json config = ReadJson(Path("model/config.json"));
    config["rope_theta"] = 20000.0;
    Write("model/config.json", config.dump());
    EXPECT_THAT(Run(again).err,
                HasSubstr("model_name_or_path: config.json has changed: rope_theta"));
  }
}

TEST_F(MachineTest, AFolderThatIsRenamedIsTakenAgain) {
  Command command(Options(Paused("3,4", CommandOf("out", {"max_steps=4"}))));
  ASSERT_TRUE(command.WaitForOutput("waits before step 3")) << command.Wait().Describe();
  fs::rename(Path("out"), Path("elsewhere"));
  LetGo(3);
  ASSERT_TRUE(command.WaitForOutput("was removed or renamed")) << command.Wait().Describe();
  const CommandResult other = Train("out", {"max_steps=4", "overwrite_output_dir=true"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("out is written to by process"));
  LetGo(4);
  const CommandResult result = command.Wait();
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("(now "));
  EXPECT_EQ(Steps("out").size(), 4);
  EXPECT_FALSE(fs::exists(Path("elsewhere/run.lock")));
  EXPECT_TRUE(fs::exists(Path("out/checkpoint-4/manifest.json")));
}

// If another run has created a folder with the same name by the time of the next save, the run
// ends.
TEST_F(MachineTest, AFolderThatIsTakenMeanwhileEndsTheRun) {
  Command command(Options(Paused("3", CommandOf("out", {"max_steps=4"}))));
  ASSERT_TRUE(command.WaitForOutput("waits before step 3")) << command.Wait().Describe();
  fs::rename(Path("out"), Path("elsewhere"));
  CommandOptions second = Options(CommandOf("out", {"max_steps=100000"}));
  Command other(second);
  ASSERT_TRUE(Await([&] { return fs::exists(Path("out/checkpoint-1/manifest.json")); }));
  LetGo(3);
  const CommandResult result = command.Wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("output_dir: out is written to by process"), HasSubstr("(now ")));
  other.Signal(SIGKILL);
  other.Wait();
}

TEST_F(MachineTest, WhatIsWrittenBesideARunEndsNone) {
  const Words words = {
      "max_steps=2",    "val_size=4",       "eval_strategy=steps",      "eval_steps=1",
      "plot_loss=true", "report_html=true", "overwrite_output_dir=true"};
  for (const std::string kind : {"folder", "pipe"}) {
    fs::remove_all(Path("out"));
    fs::create_directories(Path("out"));
    const std::vector<std::string> names = {"README.md",   "training_loss.png",  "data_report.json",
                                            "report.html", "train_results.json", "ranks.jsonl"};
    for (const std::string& name : names) {
      const std::string path = Path("out/" + name);
      kind == "pipe" ? mkfifo(path.c_str(), 0600) : mkdir(path.c_str(), 0700);
    }
    const CommandResult result = Train("out", words);
    EXPECT_THAT(result, Succeeds());
    EXPECT_TRUE(fs::exists(Path("out/model.safetensors")));
    for (const std::string& name : names) {
      const bool is_replaced = kind == "folder" && name == "report.html";
      EXPECT_TRUE(is_replaced || result.err.find(name) != std::string::npos) << name;
    }
  }
  fs::remove_all(Path("out"));
  fs::create_directories(Path("out"));
  mkfifo(Path("out/trainer_log.jsonl").c_str(), 0600);
  EXPECT_THAT(Train("out", words).err, HasSubstr("is a pipe or socket, expected a regular file"));
}

TEST_F(MachineTest, FoldersOfAnyBytesAreResumed) {
  const std::string out = "run_\xe9";
  ASSERT_THAT(Train(out, {"max_steps=2", "save_total_limit=1"}), Succeeds());
  const CommandResult again = Train(out, {"max_steps=3", "resume_from_checkpoint=true"});
  EXPECT_THAT(again, Succeeds());
  EXPECT_THAT(again.err, HasSubstr("goes on after step 2"));
}

}  // namespace
}  // namespace moonring::testing
