// What a run shows besides its log: progress, the summary, and the services of report_to.

#include <bit>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class RunOutputsTest : public ResumedRuns {
 protected:
  // Returns the only file in a folder or its subfolders whose name begins with `name`.
  std::string Found(const std::string& folder, const std::string& name) const {
    std::string found;
    for (const auto& entry : fs::recursive_directory_iterator(Path(folder))) {
      if (entry.path().filename().string().rfind(name, 0) != 0) continue;
      EXPECT_EQ(found, "") << "another " << name;
      found = entry.path();
    }
    EXPECT_NE(found, "") << name;
    return found;
  }
};

std::vector<nlohmann::json> Of(const std::string& event,
                               const std::vector<nlohmann::json>& records) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& record : records)
    if (record["event"] == event) found.push_back(record);
  return found;
}

// Returns the names that the Trainer's callbacks give to the numbers of a line of trainer_log.jsonl
// (rewrite_logs).
std::map<std::string, double> Named(const nlohmann::json& line) {
  static const std::set<std::string> kNone = {"current_steps", "total_steps", "percentage",
                                              "elapsed_seconds"};
  const bool is_evaluation = line.contains("eval_loss");
  std::map<std::string, double> named;
  for (const auto& [key, value] : line.items()) {
    if (!value.is_number() || kNone.contains(key)) continue;
    const std::string name = key == "lr"       ? "learning_rate"
                             : key == "tokens" ? "num_input_tokens_seen"
                                               : key;
    if (name.rfind("eval_", 0) == 0) {
      named["eval/" + name.substr(5)] = value;
    } else if (!is_evaluation || name == "epoch") {
      named["train/" + name] = value;
    }
  }
  return named;
}

// Returns the bytes of a scalar in an event file: Summary.Value { tag = 1, simple_value = 2 }.
std::string Scalar(const std::string& tag, double value) {
  std::string bytes = "\x0a" + std::string(1, static_cast<char>(tag.size())) + tag + "\x15";
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(bits >> (8 * i));
  return bytes;
}

TEST_F(RunOutputsTest, TrackersHaveTheNumbersOfTheLog) {
  const CommandResult result =
      Train("out",
            {"max_steps=4", "val_size=2", "eval_strategy=steps", "eval_steps=2", "save_strategy=no",
             "report_to=tensorboard,jsonl,command", "report_command=cat > told.jsonl; echo bye >&2",
             "run_name=mine", "sample_prompt=Who?"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("report_to: command: bye"));
  const auto records = ReadJsonLines(Found("out/runs", "records.jsonl"));
  EXPECT_EQ(Of("begin", records).at(0)["name"], "mine");
  EXPECT_EQ(Of("begin", records).at(0)["configuration"]["learning_rate"], 1e-3);
  EXPECT_GT(Of("lengths", records).at(0)["lengths"].size(), 2);
  EXPECT_THAT(Of("text", records).back()["text"].get<std::string>(), StartsWith("Who?\n\n"));

  const std::string events = ReadText(Found("out/runs", "events.out.tfevents."));
  auto numbers = Of("numbers", records);
  const auto lines = ReadJsonLines(Path("out/trainer_log.jsonl"));
  ASSERT_EQ(numbers.size(), 8);  // four steps, two evaluations and the one at the end, the end
  ASSERT_EQ(lines.size(), 8);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(numbers[i]["step"], lines[i]["current_steps"]);
    EXPECT_EQ((numbers[i]["numbers"].get<std::map<std::string, double>>()), Named(lines[i]));
    for (const auto& [tag, value] : Named(lines[i]))
      EXPECT_THAT(events, HasSubstr(Scalar(tag, value))) << tag;
  }
  EXPECT_TRUE(numbers[0]["numbers"].contains("train/loss"));
  EXPECT_EQ(numbers[7]["numbers"]["train/train_loss"],
            ReadJson(Path("out/train_results.json"))["train_loss"]);
  EXPECT_EQ(records.back()["event"], "end");
  EXPECT_EQ(records.back()["state"], "finished");
  for (const char* name :
       {"_hparams_/session_start_info", "_hparams_/session_end_info", "data/document_lengths",
        "data/example_1/text_summary", "sample/before/text_summary", "args/text_summary"})
    EXPECT_THAT(events, HasSubstr(name));

  const auto told = ReadJsonLines(Path("told.jsonl"));
  ASSERT_EQ(told.size(), records.size());
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i]["event"], records[i]["event"]);
    EXPECT_EQ(told[i].value("numbers", nlohmann::json()),
              records[i].value("numbers", nlohmann::json()));
  }
}

TEST_F(RunOutputsTest, ASecretIsWrittenNowhere) {
  const std::string secret = "hf_OfTheLighthouse";
  const CommandResult result =
      Train("out", {"max_steps=1", "report_to=all", "report_command=cat > told.jsonl",
                    "progress=json", "plot_loss=true", "hf_hub_token=" + secret});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out + result.err + ReadText(Path("told.jsonl")), Not(HasSubstr(secret)));
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Path("out"))) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_THAT(ReadText(entry.path()), Not(HasSubstr(secret))) << entry.path();
  }
  EXPECT_GT(files, 10);
}

TEST_F(RunOutputsTest, AResumedRunDoublesNoStep) {
  const Words words = {"max_steps=4", "save_steps=2", "report_to=all", "logging_dir=logs",
                       "report_command=cat >> told.jsonl"};
  ASSERT_THAT(Train("out", words), Succeeds());
  ASSERT_THAT(Train("out", words + Words{"resume_from_checkpoint=out/checkpoint-2"}), Succeeds());
  std::vector<int> steps;
  const auto records = ReadJsonLines(Path("logs/records.jsonl"));
  for (const auto& record : Of("numbers", records)) steps.push_back(record["step"]);
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 3, 4, 4}));  // and the end's numbers
  EXPECT_EQ(Of("begin", records).size(), 1);
  EXPECT_EQ(Of("end", records).size(), 1);
  EXPECT_EQ(Of("resume", ReadJsonLines(Path("told.jsonl"))).at(0)["step"], 2);
  // The first event file ends after step 2; the second one begins with step 3.
  std::map<std::string, std::string> by_name;
  for (const auto& entry : fs::directory_iterator(Path("logs"))) {
    const std::string name = entry.path().filename();
    if (name != "records.jsonl") by_name[name] = ReadText(entry.path());
  }
  ASSERT_EQ(by_name.size(), 2);
  const auto lines = ReadJsonLines(Path("out/trainer_log.jsonl"));
  for (const auto& line : lines) {
    if (!line.contains("loss")) continue;
    const std::string loss = Scalar("train/loss", line["loss"]);
    int found = 0;
    for (const auto& [name, events] : by_name) found += events.find(loss) != std::string::npos;
    EXPECT_EQ(found, 1) << line;
  }
}

TEST_F(RunOutputsTest, WhatFailsStopsNoRun) {
  const CommandResult dead =
      Train("dead", {"max_steps=3", "report_to=command", "report_command=exit 7"});
  EXPECT_THAT(dead, Succeeds());
  const CommandResult absent =
      Train("absent", {"max_steps=2", "report_to=command", "report_command=['/no/such']"});
  EXPECT_THAT(absent, Succeeds());
  EXPECT_THAT(absent.err, HasSubstr("report_to: command: cannot start '/no/such': No such file or "
                                    "directory; training continues without it\n"));
  Write("file", "");
  const CommandResult folder =
      Train("folder", {"max_steps=2", "report_to=all", "logging_dir=file/logs"});
  EXPECT_THAT(folder, Succeeds());
  EXPECT_THAT(folder.err, AllOf(HasSubstr("report_to: tensorboard: "),
                                HasSubstr("report_to: jsonl: "), HasSubstr("file/logs")));
}

TEST_F(RunOutputsTest, TrackersThatAreNotSupportedAreReported) {
  const CommandResult result =
      Train("told", {"report_to=comet_ml,jsonl", "max_steps=1", "push_to_hub=true"});
  EXPECT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, AllOf(HasSubstr("report_to: nothing is sent to comet_ml,"),
                                HasSubstr("report_command"), HasSubstr("tensorboard"),
                                HasSubstr("push_to_hub: no effect: nothing is sent")));
}

TEST_F(RunOutputsTest, WhatThereIsNotIsRefused) {
  EXPECT_THAT(Train("out", {"report_to=tensorbord"}),
              FailsWith(2, HasSubstr("did you mean 'tensorboard'?")));
  EXPECT_THAT(Train("out", {"report_to=command"}),
              FailsWith(2, HasSubstr("report_command: report_to: command requires a program")));
  const Words confined = {"--sandbox", "--sandbox-root", folder_, "--sandbox-root",
                          Runfile("tests/golden/stages")};
  EXPECT_THAT(Train("out", {"report_to=command", "report_command=cat"}, confined),
              FailsWith(2, HasSubstr("report_to: command: --sandbox: a report starts no program")));
  EXPECT_THAT(Train("out", {"report_to=jsonl,wandb"}, confined),
              FailsWith(2, HasSubstr("report_to: wandb: --sandbox: a report starts no program")));
  EXPECT_FALSE(fs::exists(Path("out/run.lock")));
}

TEST_F(RunOutputsTest, JsonOfEachStepOnStdout) {
  const CommandResult result = Train("out", {"max_steps=5", "logging_steps=2", "progress=json",
                                             "save_strategy=no", "sample_prompt=Who?"});
  ASSERT_THAT(result, Succeeds());
  std::istringstream lines(result.out);
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  const auto steps = Of("step", events);
  ASSERT_EQ(steps.size(), 5);
  EXPECT_EQ(steps[4]["step"], 5);
  EXPECT_GT(steps[4]["loss"], 0);
  EXPECT_GT(steps[4]["memory_limit_bytes"], steps[4]["memory_bytes"]);
  EXPECT_EQ(Of("phase", events).at(0)["name"], "preparing data");
  EXPECT_EQ(events.back()["event"], "end");
  EXPECT_EQ(events.back()["tokens"], steps[4]["tokens"]);
  EXPECT_THAT(result.err, AllOf(Not(HasSubstr("step 2/5")), HasSubstr("trained   5 steps in ")));
}

TEST_F(RunOutputsTest, PlainLinesAndASummary) {
  const CommandResult plain = Train("out", {"max_steps=2", "save_strategy=no"});
  ASSERT_THAT(plain, Succeeds());
  EXPECT_THAT(plain.err, AllOf(HasSubstr("prepared: preparing data "), HasSubstr("step 2/2  loss "),
                               HasSubstr(" tokens/s"), HasSubstr("\ntrained   2 steps in 0:0"),
                               HasSubstr("\nmemory    "), HasSubstr("\nfiles     out: "),
                               HasSubstr("saving the model ")));
  EXPECT_THAT(plain.err, AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(plain.out, IsEmpty());
  const CommandResult off = Train("off", {"max_steps=2", "save_strategy=no", "disable_tqdm=true"});
  ASSERT_THAT(off, Succeeds());
  EXPECT_THAT(off.err, AllOf(Not(HasSubstr("step 1/2")), HasSubstr("\nfiles     off: ")));
}

}  // namespace
}  // namespace moonring::testing
