#ifndef MOONRING_TESTS_SCRIPTS_RESUMED_RUNS_H_
#define MOONRING_TESTS_SCRIPTS_RESUMED_RUNS_H_

// Interrupts and resumes runs of `train`, and compares them with the same runs without
// interruption.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {

class ResumedRuns : public Workplace {
 protected:
  // Returns a command with the small model and data of tests/golden/stages.
  Words CommandOf(const std::string& out, const Words& more, const Words& options = {}) const {
    const std::string home = Runfile("tests/golden/stages");
    return options +
           Words{"train",
                 "model_name_or_path=" + home + "/model",
                 "dataset_dir=" + home + "/data",
                 "stage=sft",
                 "dataset=talks",
                 "output_dir=" + out,
                 "finetuning_type=full",
                 "template=chatml",
                 "cutoff_len=160",
                 "per_device_train_batch_size=2",
                 "gradient_accumulation_steps=2",
                 "learning_rate=1e-3",
                 "logging_steps=1",
                 "save_steps=1",
                 "lr_scheduler_type=cosine",
                 "weight_decay=0.1"} +
           more;
  }
  // Returns the command started by paused.lua: it waits before each of `steps` (for example "7,31")
  // until LetGo allows that step.
  Words Paused(const std::string& steps, Words command) const {
    const auto train = std::find(command.begin(), command.end(), "train");
    *train = Runfile("tests/scripts/paused.lua");
    command.insert(train + 1, {steps, Path("go")});
    return command;
  }
  void LetGo(int step) const { Write("go" + std::to_string(step), ""); }

  CommandResult Train(const std::string& out, const Words& more, const Words& options = {}) const {
    return Run(CommandOf(out, more, options));
  }

  // Returns the entries of a log without fields that depend on the clock or the machine.
  static nlohmann::json WithoutClocks(const nlohmann::json& entries) {
    nlohmann::json kept = nlohmann::json::array();
    for (nlohmann::json entry : entries) {
      for (const char* clock : {"elapsed_time", "elapsed_seconds", "remaining_time",
                                "peak_memory_bytes", "peak_anonymous_bytes", "allocator_held_bytes",
                                "peak_device_allocated_bytes", "peak_device_reserved_bytes"}) {
        entry.erase(clock);
      }
      for (auto each = entry.begin(); each != entry.end();)
        each = each.key().find("_per_second") != std::string::npos ||
                       each.key().find("runtime") != std::string::npos ||
                       each.key().rfind("time/", 0) == 0 ||
                       each.key().rfind("memory/", 0) == 0  // at a peak that a thread saw
                   ? entry.erase(each)
                   : ++each;
      kept.push_back(entry);
    }
    return kept;
  }

  nlohmann::json Lines(const std::string& out) const {
    return WithoutClocks(ReadJsonLines(Path(out + "/trainer_log.jsonl")));
  }

  nlohmann::json Steps(const std::string& out) const {
    nlohmann::json steps = nlohmann::json::array();
    for (const nlohmann::json& line : Lines(out)) {
      if (line.contains("loss")) steps.push_back(line);
    }
    return steps;
  }

  void ExpectSameRun(const std::string& a, const std::string& b) const {
    for (const char* name :
         {"model.safetensors", "adapter_model.safetensors", "value_head.safetensors"}) {
      ASSERT_EQ(std::filesystem::exists(Path(a + "/" + name)),
                std::filesystem::exists(Path(b + "/" + name)))
          << name;
      if (!std::filesystem::exists(Path(a + "/" + name))) continue;
      EXPECT_TRUE(ReadText(Path(a + "/" + name)) == ReadText(Path(b + "/" + name)))
          << a << "/" << name << " differs";
    }
    EXPECT_EQ(Lines(a), Lines(b));
    EXPECT_EQ(ReadJson(Path(a + "/train_results.json")).at("train_loss"),
              ReadJson(Path(b + "/train_results.json")).at("train_loss"));
    const nlohmann::json state_a = ReadJson(Path(a + "/trainer_state.json")),
                         state_b = ReadJson(Path(b + "/trainer_state.json"));
    EXPECT_EQ(state_a.at("best_metric"), state_b.at("best_metric"));
    EXPECT_EQ(state_a.at("global_step"), state_b.at("global_step"));
    EXPECT_EQ(WithoutClocks(state_a.at("log_history")), WithoutClocks(state_b.at("log_history")));
  }

  // Makes an interrupted run from a whole one: copies what that run had written up to a step.
  void KeepUpTo(const std::string& from, int step, const std::string& to) const {
    std::filesystem::create_directories(Path(to));
    for (const auto& entry : std::filesystem::directory_iterator(Path(from))) {
      const std::string name = entry.path().filename();
      const bool later = name.rfind("checkpoint-", 0) == 0 && std::stoi(name.substr(11)) > step;
      if (entry.is_directory() ? !later : name == "trainer_log.jsonl")
        std::filesystem::copy(entry.path(), Path(to + "/" + name),
                              std::filesystem::copy_options::recursive);
    }
    Write(to + "/trainer_log.jsonl", ReadText(Path(to + "/trainer_log.jsonl")) +
                                         "{\"current_st");  // died in the middle of a line
  }

  void ExpectResumes(const std::string& name, const Words& words, const std::vector<int>& steps,
                     const Words& options = {}) const {
    SCOPED_TRACE(name);
    ASSERT_THAT(Train(name, words, options), Succeeds());
    for (const int step : steps) {
      SCOPED_TRACE(step);
      const std::string again = name + "_" + std::to_string(step);
      KeepUpTo(name, step, again);
      const CommandResult result =
          Train(again, words + Words{"resume_from_checkpoint=true"}, options);
      ASSERT_THAT(result, Succeeds());
      EXPECT_THAT(result.err,
                  ::testing::HasSubstr("goes on after step " + std::to_string(step) + ", from " +
                                       again + "/checkpoint-" + std::to_string(step)));
      ExpectSameRun(name, again);
    }
  }
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_SCRIPTS_RESUMED_RUNS_H_
