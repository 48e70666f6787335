// report_to: wandb, mlflow and swanlab. The packages are those of fake_trackers, which record what
// they are told; tests/peers/trackers_read.py reads what the real ones keep.

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Numbers = std::map<std::string, double>;

class TrackersTest : public ResumedRuns {
 protected:
  CommandResult Tracked(const Words& command, const std::map<std::string, std::string>& more = {}) {
    CommandOptions options = Options(command);
    options.environment.insert({{"PYTHONPATH", Runfile("tests/scripts/fake_trackers")},
                                {"PYTHONDONTWRITEBYTECODE", "1"},
                                {"RECORDED", Path("told")}});
    for (const auto& [name, value] : more) options.environment[name] = value;
    return RunMoonring(options);
  }
  CommandResult Train(const Words& more, const std::map<std::string, std::string>& variables = {}) {
    return Tracked(CommandOf("out", Words{"max_steps=3", "save_strategy=no", "logging_dir=logs",
                                          "report_html=false"} +
                                        more),
                   variables);
  }
  // Returns the calls of a function of a package, each [arguments, named arguments].
  std::vector<json> Calls(const std::string& package, const std::string& function) const {
    std::vector<json> calls;
    for (const json& line : ReadJsonLines(Path("told." + package)))
      if (line[0] == function) calls.push_back({line[1], line[2]});
    return calls;
  }
  json Last(const std::string& package, const std::string& function) const {
    return Calls(package, function).back();
  }
};

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Returns the numbers of a line of trainer_log.jsonl that the Trainer's callbacks report.
Numbers Telling(const json& line) {
  Numbers numbers;
  for (const auto& [key, name] :
       std::map<std::string, std::string>{{"loss", "train/loss"},
                                          {"lr", "train/learning_rate"},
                                          {"grad_norm", "train/grad_norm"},
                                          {"tokens", "train/num_input_tokens_seen"},
                                          {"eval_loss", "eval/loss"}}) {
    const bool of_training = key == "tokens" && line.contains("eval_loss");
    if (line.contains(key) && line[key].is_number() && !of_training) numbers[name] = line[key];
  }
  return numbers;
}

TEST_F(TrackersTest, EachGetsTheNumbersOfTheLogAndItsKeys) {
  const CommandResult result =
      Train({"report_to=wandb,mlflow", "use_swanlab=true", "val_size=2", "eval_strategy=steps",
             "eval_steps=2", "sample_prompt=Who?", "run_name=mine", "swanlab_project=moons",
             "swanlab_workspace=us", "swanlab_run_name=ours", "swanlab_mode=local",
             "swanlab_logdir=swan", "swanlab_api_key=SECRET",
             "swanlab_lark_webhook_url=SECRET/hook", "swanlab_lark_secret=SECRET too"},
            {{"MLFLOW_EXPERIMENT_NAME", "tides"}, {"MLFLOW_TAGS", R"({"a": "b"})"}});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("report_to: wandb: run "), HasSubstr("report_to: mlflow: run "),
                    HasSubstr("report_to: swanlab: run "), Not(HasSubstr("SECRET"))));

  const auto lines = ReadJsonLines(Path("out/trainer_log.jsonl"));
  std::map<int, Numbers> wandb, mlflow, swanlab;
  for (const json& call : Calls("wandb", "log")) {
    for (const auto& [name, value] : call[0][0].items())
      if (value.is_number()) wandb[call[0][0]["train/global_step"]][name] = value;
  }
  for (const json& call : Calls("swanlab", "log")) {
    for (const auto& [name, value] : call[0][0].items())
      if (value.is_number()) swanlab[call[0][1]][name] = value;
  }
  for (const json& call : Calls("mlflow", "log_batch")) {
    for (const json& each : call[1]["metrics"]) mlflow[each["step"]][each["key"]] = each["value"];
  }
  ASSERT_EQ(lines.size(), 6);  // three steps, two evaluations, the end
  int compared = 0;
  for (const json& line : lines) {
    for (const auto& [name, value] : Telling(line)) {
      const int step = line["current_steps"];
      const std::string bare = name == "eval/loss" ? "eval_loss" : name.substr(6);
      EXPECT_EQ(wandb[step][name], value) << name;
      EXPECT_EQ(swanlab[step][name], value) << name;
      EXPECT_EQ(mlflow[step][bare], value) << bare;
      ++compared;
    }
  }
  EXPECT_GE(compared, 13);
  const double total = ReadJson(Path("out/train_results.json"))["train_loss"];
  EXPECT_EQ(Calls("wandb", "summary").size(), 5);  // totals of the run have no step
  EXPECT_EQ(swanlab[3]["single_value/train_loss"], total);
  EXPECT_EQ(mlflow[3]["train_loss"], total);

  const json wandb_init = Last("wandb", "init")[1], swanlab_init = Last("swanlab", "init")[1];
  EXPECT_EQ(wandb_init["project"], "llamafactory");
  EXPECT_EQ(wandb_init["name"], "mine");
  EXPECT_EQ(wandb_init["config"]["learning_rate"], 1e-3);
  EXPECT_EQ(swanlab_init["config"]["learning_rate"], 1e-3);
  for (const auto& [key, value] : std::map<std::string, std::string>{{"project", "moons"},
                                                                     {"workspace", "us"},
                                                                     {"experiment_name", "ours"},
                                                                     {"mode", "local"},
                                                                     {"logdir", "swan"}})
    EXPECT_EQ(swanlab_init[key], value);
  EXPECT_EQ(swanlab_init["callbacks"][0]["webhook_url"], "SECRET/hook");
  EXPECT_EQ(swanlab_init["callbacks"][0]["secret"], "SECRET too");
  EXPECT_EQ(Last("swanlab", "login")[1]["api_key"], "SECRET");
  EXPECT_EQ(Last("mlflow", "set_experiment")[0][0], "tides");
  EXPECT_EQ(Last("mlflow", "start_run")[0][1], "mine");
  std::map<std::string, std::string> params;
  for (const json& call : Calls("mlflow", "log_batch"))
    for (const json& each : call[1]["params"]) params[each["key"]] = each["value"];
  EXPECT_EQ(params["learning_rate"], "0.001");
  EXPECT_EQ(params["model_name_or_path"],
            (Runfile("tests/golden/stages") + "/model").substr(0, 20));  // MLflow's bound
  EXPECT_THAT(Last("mlflow", "log_text")[0].dump(), HasSubstr("sample/after/step_3.txt"));
  EXPECT_EQ(Last("wandb", "finish")[0][0], 0);
  EXPECT_EQ(Last("mlflow", "end_run")[0][0], "FINISHED");
  EXPECT_EQ(Last("swanlab", "finish")[0][0], "success");
}

TEST_F(TrackersTest, AResumedRunContinuesTheTrackersRun) {
  const Words words = {"report_to=wandb,mlflow,swanlab", "save_strategy=steps", "save_steps=2"};
  ASSERT_THAT(Train(words), Succeeds());
  EXPECT_EQ(Last("wandb", "init")[1]["id"], nullptr);
  ASSERT_THAT(Train(words + Words{"resume_from_checkpoint=out/checkpoint-2"}), Succeeds());
  const auto kept = [&](const std::string& name) {
    return ReadJson(Path("logs/" + name + "_run.json"))["id"];
  };
  EXPECT_EQ(Calls("wandb", "init").size(), 2);
  EXPECT_EQ(Last("wandb", "init")[1]["id"], kept("wandb"));
  EXPECT_EQ(Last("wandb", "init")[1]["resume"], "allow");
  EXPECT_EQ(Last("mlflow", "start_run")[0][0], kept("mlflow"));
  EXPECT_EQ(Last("swanlab", "init")[1]["id"], kept("swanlab"));
  EXPECT_EQ(Last("mlflow", "log_batch")[0][0], kept("mlflow"));
}

TEST_F(TrackersTest, ARunThatDoesNotFinishSaysSo) {
  const std::string run = R"(
    local moonring = require "moonring"
    local run = moonring.run.open(moonring.config.command(arg))
    for step, k in run:steps() do
      run:log(run:update(step))
      %s
      run:save_if_due()
    end)";
  const auto script = [&](const std::string& name, const std::string& middle) {
    std::string text = run;
    text.replace(text.find("%s"), 2, middle);
    Words command = CommandOf("out", {"max_steps=3", "save_strategy=no", "report_html=false",
                                      "report_to=wandb,mlflow,swanlab"});
    command[0] = Write(name, text);
    return Tracked(command);
  };
  EXPECT_EQ(script("fails.lua", "error 'no tide'").exit_code, 1);
  EXPECT_EQ(Last("wandb", "finish")[0][0], 1);
  EXPECT_EQ(Last("mlflow", "end_run")[0][0], "FAILED");
  EXPECT_EQ(Last("swanlab", "finish")[0][0], "crashed");
  EXPECT_THAT(Last("swanlab", "finish")[0][1].get<std::string>(),
              ::testing::EndsWith("fails.lua:6: no tide"));

  EXPECT_EQ(script("ends.lua", "os.execute 'kill -TERM $PPID'").exit_code, 128 + 15);
  EXPECT_EQ(Last("wandb", "finish")[0][0], 255);
  EXPECT_EQ(Last("wandb", "summary")[0], json({"end_reason", "SIGTERM: saved after step 1"}));
  EXPECT_EQ(Last("mlflow", "end_run")[0][0], "KILLED");
  EXPECT_EQ(Last("swanlab", "finish")[0][0], "aborted");
}

TEST_F(TrackersTest, WhatIsMissingOrFailsIsOneLine) {
  // A Python with the standard library alone, whatever this machine has.
  const std::string bare = Write("bare", "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
  std::system(("chmod +x " + bare).c_str());
  const auto lines = [&](const Words& words, const std::map<std::string, std::string>& variables) {
    const CommandResult result = Train(words + Words{"overwrite_output_dir=true"}, variables);
    EXPECT_THAT(result, Succeeds());
    std::string found;
    std::istringstream all(result.err);
    for (std::string line; std::getline(all, line);)
      if (line.find("report_to") != std::string::npos) found += line + "\n";
    return found;
  };
  const std::string missing = lines({"report_to=wandb"}, {{"MOONRING_PYTHON", bare}});
  EXPECT_THAT(missing, AllOf(HasSubstr("has no package wandb: `pip install wandb=="),
                             HasSubstr("training continues without it\n")));
  EXPECT_EQ(Count(missing, "\n"), 1);
  const std::string python = lines({"report_to=mlflow"}, {{"MOONRING_PYTHON", "/no/python"}});
  EXPECT_THAT(python, AllOf(HasSubstr("cannot start '/no/python'"), HasSubstr("MOONRING_PYTHON")));
  EXPECT_EQ(Count(python, "\n"), 1);
  const std::string failing =
      lines({"report_to=wandb,mlflow,swanlab"},
            {{"FAULTS", "mlflow start_run 1 raise,swanlab log 6 raise,wandb log 6 exit"}});
  EXPECT_EQ(Count(failing,
                  "report_to: mlflow: RuntimeError: no network at all; nothing is sent, "
                  "and training continues\n"),
            1);
  EXPECT_EQ(Count(failing, "report_to: mlflow"), 1);
  EXPECT_EQ(Count(failing,
                  "report_to: swanlab: RuntimeError: no network at all; the next steps "
                  "are tried all the same\n"),
            1);
  EXPECT_EQ(Count(failing, "report_to: swanlab"), 2);  // the other one: that its run has begun
  EXPECT_EQ(Count(failing, "it ended with exit code 3"), 1);
  EXPECT_EQ(Count(failing, "report_to: wandb"), 2);
}

}  // namespace
}  // namespace moonring::testing
