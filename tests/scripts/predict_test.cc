// do_predict and predict_with_generate equal LLaMA-Factory's runs with the same keys
// (tests/golden/predict), on any number of ranks and during training; and invalid settings.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kScores[] = {"bleu-4", "rouge-1", "rouge-2", "rouge-l"};

class PredictTest : public Workplace {
 protected:
  // Returns the keys of a golden case, with its files' paths; the run writes to `out`.
  json Keys(const std::string& name, const std::string& out) const {
    json keys = spec_.at("base");
    keys.update(spec_.at("cases").at(name));
    for (const char* key : {"model_name_or_path", "adapter_name_or_path"}) {
      if (keys.contains(key))
        keys[key] = Runfile("tests/golden/stages/" + keys.at(key).get<std::string>());
    }
    for (auto key = keys.begin(); key != keys.end();)
      key = key->is_null() ? keys.erase(key) : std::next(key);
    keys["dataset_dir"] = Runfile("tests/golden/predict/data");
    keys["output_dir"] = out;
    return keys;
  }

  CommandResult Predict(const json& keys, std::vector<std::string> options = {}) const {
    Write("case.yaml", keys.dump());  // JSON is YAML
    options.insert(options.end(), {"train", "case.yaml"});
    return Run(options);
  }

  std::string Predictions(const std::string& out) const {
    return ReadText(Path(out + "/generated_predictions.jsonl"));
  }

  // Compares the numbers of NAME_results.json, except timings.
  void CompareResults(const json& golden, const std::string& name, const std::string& out) const {
    const json ours = ReadJson(Path(out + "/" + name + "_results.json")),
               all = ReadJson(Path(out + "/all_results.json"));
    for (const auto& [key, value] : golden.at(name).items()) {
      ASSERT_TRUE(ours.contains(key)) << key << " is missing in " << ours;
      EXPECT_EQ(ours.at(key), all.at(key));
      if (key.find("runtime") != std::string::npos || key.find("second") != std::string::npos ||
          key.find("time") != std::string::npos || key == "epoch")
        continue;
      // The expected scores are computed from labels that end where the answer ends (make.py);
      // LLaMA-Factory's own scores include the template's line break.
      const std::string score = key.substr(key.find('_') + 1);
      const json& scores = golden.at("of_answers");
      const double wanted = scores.contains(score) ? scores.at(score) : value;
      EXPECT_NEAR(ours.at(key).get<double>(), wanted, 1e-9) << key;
    }
  }

  const json spec_ = ReadJson(Runfile("tests/golden/predict/cases.json"));
};

TEST_F(PredictTest, WritesWhatLlamaFactoryWrites) {
  EXPECT_GE(spec_.at("cases").size(), 6);
  for (const auto& [name, keys] : spec_.at("cases").items()) {
    SCOPED_TRACE(name);
    ASSERT_THAT(Predict(Keys(name, "out")), Succeeds());
    const json golden = ReadJson(Runfile("tests/golden/predict/golden/" + name + ".json"));
    std::istringstream lines(Predictions("out"));
    int row = 0;
    for (std::string line; std::getline(lines, line); ++row) {
      ASSERT_LT(row, golden.at("predictions").size());
      EXPECT_EQ(line, golden.at("predictions")[row].get<std::string>()) << "row " << row;
    }
    EXPECT_EQ(row, golden.at("predictions").size());
    CompareResults(golden, "predict", "out");
    if (golden.contains("eval")) CompareResults(golden, "eval", "out");
  }
}

// Greedy and sampled generation write the same file, no matter which rank generates a row and how
// many rows are generated at once.
TEST_F(PredictTest, IsTheSameOnAnyRanks) {
  for (const json& how :
       {json{{"do_sample", false}},
        json{{"do_sample", true}, {"temperature", 1.5}, {"top_k", 0}, {"top_p", 1.0}}}) {
    json keys = Keys("plain", "one");
    keys.update(how);
    ASSERT_THAT(Predict(keys), Succeeds());
    const std::string alone = Predictions("one");
    const json scores = ReadJson(Path("one/predict_results.json"));
    const auto compare = [&](json more) {
      json changed = keys;
      changed.update(more);
      changed["output_dir"] = "two";
      ASSERT_THAT(Predict(changed, {"-n", "2"}), Succeeds()) << more;
      EXPECT_EQ(Predictions("two"), alone) << more;
      const json other = ReadJson(Path("two/predict_results.json"));
      for (const std::string name : kScores)
        EXPECT_EQ(other.at("predict_" + name), scores.at("predict_" + name)) << more;
    };
    compare({{"per_device_eval_batch_size", 1}});                                 // dp 2
    compare({{"sequence_parallel_size", 2}, {"per_device_eval_batch_size", 4}});  // sp 2
    compare({{"zero_stage", 3}});
  }
  // Sampled answers depend only on the seed and the row.
  json keys = Keys("plain", "one");
  keys.update({{"temperature", 1.5}, {"top_k", 0}, {"top_p", 1.0}, {"seed", 7}});
  keys.erase("do_sample");
  ASSERT_THAT(Predict(keys), Succeeds());
  EXPECT_NE(Predictions("one"), Predictions("two"));
}

// With skip_special_tokens: false the file contains an answer's special tokens.
TEST_F(PredictTest, SpecialTokensAreKeptWhereAsked) {
  json keys = Keys("plain", "out");
  keys["skip_special_tokens"] = false;
  ASSERT_THAT(Predict(keys), Succeeds());
  const json golden = ReadJson(Runfile("tests/golden/predict/golden/plain.json"));
  const std::vector<json> rows = ReadJsonLines(Path("out/generated_predictions.jsonl"));
  ASSERT_EQ(rows.size(), golden.at("predictions").size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const json without = json::parse(golden.at("predictions")[i].get<std::string>());
    std::string label = without.at("label");
    ASSERT_TRUE(label.ends_with("\n"));
    EXPECT_EQ(rows[i].at("label"), label.substr(0, label.size() - 1) + "<|im_end|>\n");
  }
  CompareResults(golden, "predict", "out");
}

// Evaluations during training, on one rank and on several, have the four scores instead of the
// loss, and the best model can be selected by a score. The training ends with predictions.
TEST_F(PredictTest, EvaluatesWhileItTrains) {
  json keys = Keys("trained", "one");
  keys.update({{"eval_strategy", "steps"},
               {"eval_steps", 10},
               {"save_strategy", "steps"},
               {"save_steps", 10},
               {"load_best_model_at_end", true},
               {"metric_for_best_model", "rouge-l"}});
  ASSERT_THAT(Predict(keys), Succeeds());
  std::vector<json> evaluations;
  for (const json& line : ReadJsonLines(Path("one/trainer_log.jsonl"))) {
    if (line.contains("eval_bleu-4")) evaluations.push_back(line);
    EXPECT_FALSE(line.contains("eval_loss"));
  }
  ASSERT_EQ(evaluations.size(), 4);  // three during the training, and one of the best model
  double best = 0;
  for (const json& line : evaluations) {
    for (const std::string name : kScores) {
      EXPECT_GE(line.at("eval_" + name).get<double>(), 0);
      EXPECT_LE(line.at("eval_" + name).get<double>(), 100);
    }
    best = std::max(best, line.at("eval_rouge-l").get<double>());
  }
  EXPECT_GT(best, 0);
  const json state = ReadJson(Path("one/trainer_state.json"));
  EXPECT_EQ(state.at("best_metric").get<double>(), best);
  EXPECT_EQ(ReadJson(Path("one/eval_results.json")).at("eval_rouge-l").get<double>(), best);
  EXPECT_EQ(ReadJson(Path("one/predict_results.json")).at("predict_rouge-l").get<double>(), best);

  keys.update({{"output_dir", "two"}, {"per_device_train_batch_size", 2}});
  ASSERT_THAT(Predict(keys, {"-n", "2"}), Succeeds());
  EXPECT_EQ(Predictions("two"), Predictions("one"));
}

// Predictions may be written to the folder of a trained model; without do_train nothing else in it
// changes.
TEST_F(PredictTest, TrainsNothingWithoutDoTrain) {
  json keys = Keys("plain", "out");
  keys.erase("overwrite_output_dir");
  Write("out/mine.txt", "mine");
  Write("out/all_results.json", R"({"train_loss": 1.5})");
  ASSERT_THAT(Predict(keys), Succeeds());
  EXPECT_EQ(ReadText(Path("out/mine.txt")), "mine");
  EXPECT_FALSE(std::ifstream(Path("out/trainer_log.jsonl")).good());
  EXPECT_FALSE(std::ifstream(Path("out/model.safetensors")).good());
  const json all = ReadJson(Path("out/all_results.json"));
  EXPECT_EQ(all.at("train_loss"), 1.5);
  EXPECT_TRUE(all.contains("predict_rouge-l"));
}

TEST_F(PredictTest, RefusesWhatDoesNotGoTogether) {
  const auto refused = [&](const json& more, const std::string& message) {
    json keys = Keys("plain", "out");
    keys.update(more);
    for (auto key = keys.begin(); key != keys.end();)
      key = key->is_null() ? keys.erase(key) : std::next(key);
    EXPECT_THAT(Predict(keys), FailsWith(2, HasSubstr(message))) << more;
  };
  refused({{"predict_with_generate", nullptr}},
          "do_predict: expected predict_with_generate: true beside it");
  refused({{"eval_dataset", nullptr}}, "do_predict: nothing to answer; expected eval_dataset or");
  refused({{"stage", "pt"}}, "do_predict is for stage sft alone");
  refused({{"compute_accuracy", true}}, "predict_with_generate and compute_accuracy exclude");
  refused({{"num_beams", 4}}, "not supported yet: num_beams: 4");
  refused({{"eval_num_beams", 4}}, "not supported yet: eval_num_beams: 4");
  refused({{"max_new_tokens", 0}}, "max_new_tokens: expected at least 1, got 0");
  refused({{"do_sample", true}, {"temperature", 0}}, "temperature: expected more than 0, got 0");
  refused({{"top_p", 1.5}}, "top_p: expected more than 0 and at most 1, got 1.5");
  refused({{"repetition_penalty", 0}}, "repetition_penalty: expected more than 0, got 0");
  refused({{"top_k", -1}}, "top_k: expected 0 or more, got -1");
  refused({{"tokenized_path", "kept"}}, "predict_with_generate: tokenized_path holds examples");
  refused({{"eval_on_each_dataset", true}}, "do_predict: generated_predictions.jsonl is of one");
  refused({{"metric_for_best_model", "loss"}}, "with predict_with_generate there is no loss");
  refused({{"eval_dataset", nullptr}, {"val_size", 2}}, "dataset is missing");
  refused({{"eval_dataset", "nothing"}}, "nothing");
}

// nltk and rouge-chinese give an answer that equals its label a score of 100.
TEST_F(PredictTest, AnExactAnswerHas100) {
  Write("data/said.json", R"([{"instruction": "What of it?", "output": "An old map keeps it."}])");
  Write("data/dataset_info.json", R"({"said": {"file_name": "said.json"}})");
  json keys = Keys("plain", "out");
  keys.update({{"do_train", true},
               {"dataset", "said"},
               {"eval_dataset", "said"},
               {"dataset_dir", "data"},
               {"max_steps", 30},
               {"learning_rate", 1e-2},
               {"per_device_train_batch_size", 1},
               {"gradient_accumulation_steps", 1},
               {"save_strategy", "no"}});
  ASSERT_THAT(Predict(keys), Succeeds());
  const json line = json::parse(Predictions("out"));
  ASSERT_EQ(line.at("predict").get<std::string>() + "\n", line.at("label"));
  const json results = ReadJson(Path("out/predict_results.json"));
  for (const std::string score : kScores) EXPECT_EQ(results.at("predict_" + score), 100.0) << score;
}

}  // namespace
}  // namespace moonring::testing
