// Runs without training: do_train: false, and `moonring evaluate`. The expected numbers are those
// of the evaluation before a training's first step (eval_on_start), which stages_test.cc compares
// with LLaMA-Factory.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EvaluateTest : public ResumedRuns {
 protected:
  // Runs a training's command line with `evaluate` instead of `train`.
  CommandResult Evaluate(const std::string& out, const Words& more) const {
    Words command = CommandOf(out, more);
    command[0] = "evaluate";
    return Run(command);
  }

  std::map<std::string, std::string> Contents(const std::string& folder) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(Path(folder))) {
      if (entry.is_regular_file()) files[entry.path().string()] = ReadText(entry.path().string());
    }
    return files;
  }

  // Returns the record's numbers eval_NAME, except timings.
  static json Numbers(const json& record) {
    json kept;
    for (const auto& [name, value] : record.items()) {
      const bool time = name.find("runtime") != std::string::npos ||
                        name.find("_per_second") != std::string::npos ||
                        name.find("_time") != std::string::npos;
      if (name.rfind("eval_", 0) == 0 && !time) kept[name] = value;
    }
    return kept;
  }

  void ExpectThoseOfATraining(const std::string& name, const Words& keys) const {
    const std::string alone = name + "_alone", trained = name + "_trained";
    ASSERT_THAT(Evaluate(alone, keys), Succeeds()) << name;
    EXPECT_EQ(Contents(alone).size(), 3u) << name;  // eval_results, all_results, data_report
    ASSERT_THAT(Train(trained, keys + Words{"eval_strategy=steps", "eval_on_start=true",
                                            "max_steps=1", "save_strategy=no"}),
                Succeeds())
        << name;
    const json ours = Numbers(ReadJson(Path(alone + "/eval_results.json")));
    EXPECT_GE(ours.size(), 1u) << name;
    EXPECT_EQ(ours, Numbers(ReadJsonLines(Path(trained + "/trainer_log.jsonl"))[0])) << name;
  }
};

TEST_F(EvaluateTest, ItsNumbersAreThoseOfATraining) {
  Write("rewards.lua",
        "return { { name = 'length', each = function(row) return #row.completion end } }");
  ExpectThoseOfATraining("sft", {"val_size=3"});
  ExpectThoseOfATraining("dpo", {"stage=dpo", "dataset=pairs", "eval_dataset=pairs",
                                 "finetuning_type=lora", "sequence_parallel_size=2"});
  ExpectThoseOfATraining(
      "grpo", {"stage=grpo", "reward_funcs=rewards.lua", "num_generations=2", "eval_dataset=talks",
               "max_samples=4", "max_completion_length=4", "max_prompt_length=32"});
}

TEST_F(EvaluateTest, ItsNumbersAreThoseOfATrainingOfEveryStage) {
  ExpectThoseOfATraining("each", {"eval_dataset=talks,talks", "eval_on_each_dataset=true"});
  ExpectThoseOfATraining("stream", {"eval_dataset=talks", "streaming=true"});
  ExpectThoseOfATraining("kto", {"stage=kto", "dataset=judged", "val_size=2"});
  ExpectThoseOfATraining("rm", {"stage=rm", "dataset=pairs", "val_size=2"});
  ExpectThoseOfATraining("kept", {"stage=dpo", "dataset=pairs", "val_size=2",
                                  "precompute_ref_log_probs=true", "zero_stage=3"});
}

// The results may be written to the folder of a trained model; nothing else in it changes.
TEST_F(EvaluateTest, LeavesWhatATrainingHasWritten) {
  const Words lora = {"finetuning_type=lora", "max_steps=2", "eval_dataset=talks"};
  ASSERT_THAT(Train("out", lora), Succeeds());
  const auto before = Contents("out");
  const CommandResult result =
      Train("out", lora + Words{"do_train=false", "do_eval=true", "adapter_name_or_path=out",
                                "overwrite_output_dir=true"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, AllOf(HasSubstr("overwrite_output_dir: no effect: nothing is trained"),
                                Not(HasSubstr("trained  "))));
  for (const auto& [path, text] : before) {
    const bool results = path.find("_results.json") != std::string::npos ||
                         path.find("data_report.json") != std::string::npos;
    if (!results) {
      EXPECT_EQ(ReadText(path), text) << path;
    }
  }
  const json report = ReadJson(Path("out/data_report.json"));
  EXPECT_EQ(report.at("examples"), 40);  // the training's
  EXPECT_EQ(report.at("evaluated")[0].at("name"), "talks");
  EXPECT_TRUE(ReadJson(Path("out/all_results.json")).contains("train_loss"));
  // The configuration requests nothing at all.
  const auto now = Contents("out");
  const CommandResult nothing = Train("out", lora + Words{"do_train=false", "eval_dataset=null"});
  ASSERT_THAT(nothing, Succeeds());
  EXPECT_THAT(nothing.err, HasSubstr("nothing is done: do_train is false"));
  EXPECT_EQ(Contents("out"), now);
}

// Rows that are skipped or truncated in an evaluation are reported, and their lines are kept among
// the answers.
TEST_F(EvaluateTest, RowsAreAccounted) {
  Write("data/dataset_info.json", R"({"rows": {"file_name": "rows.jsonl"}})");
  Write("data/rows.jsonl", R"({"instruction": "one", "input": "", "output": "a"})"
                           "\n"
                           R"({"instruction": "no answer", "input": "", "output": null})"
                           "\n"
                           R"({"instruction": "three", "input": "", "output": ")" +
                               std::string(400, 'b') + R"("})" + "\n");
  const Words keys = {"dataset_dir=data", "dataset=rows", "cutoff_len=32", "max_new_tokens=2"};
  const CommandResult answered =
      Train("answers",
            keys + Words{"do_predict=true", "predict_with_generate=true", "eval_dataset=rows"});
  ASSERT_THAT(answered, Succeeds());
  EXPECT_THAT(answered.err,
              AllOf(HasSubstr("eval_dataset rows: examples: 2 of 3 rows"),
                    HasSubstr("skipped rows, no 'output': 1"), HasSubstr("cut to cutoff_len: 1"),
                    HasSubstr("the scores are of rows that cutoff_len 32 cuts, too: 1 of 2")));
  const Words streamed = keys + Words{"do_predict=true", "predict_with_generate=true",
                                      "eval_dataset=rows", "streaming=true"};
  ASSERT_THAT(Train("streamed", streamed), Succeeds());
  EXPECT_EQ(ReadText(Path("streamed/generated_predictions.jsonl")),
            ReadText(Path("answers/generated_predictions.jsonl")));
  const std::vector<json> lines = ReadJsonLines(Path("answers/generated_predictions.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].at("left_out"), "no 'output', data/rows.jsonl:2 (row 2)");
  EXPECT_TRUE(lines[1].at("predict").is_null());
  EXPECT_THAT(lines[2].at("prompt").get<std::string>(), HasSubstr("three"));
  const json results = ReadJson(Path("answers/predict_results.json"));
  EXPECT_EQ(results.at("predict_rows_left_out"), 1);
  EXPECT_EQ(results.at("predict_rows_cut"), 1);

  const CommandResult split =
      Train("split", keys + Words{"dataset=rows", "val_size=0.3", "eval_strategy=steps",
                                  "eval_steps=1", "max_steps=1"});
  ASSERT_THAT(split, Succeeds());
  EXPECT_THAT(split.err, AllOf(HasSubstr("examples: 2 of 3 rows"),
                               HasSubstr("val_size: 1 of the 3 rows are held out"),
                               HasSubstr("examples cut to cutoff_len: 1")));
}

}  // namespace
}  // namespace moonring::testing
