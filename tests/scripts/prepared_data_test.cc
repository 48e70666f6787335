// `tokenized_path`, eval_on_each_dataset and dataloader_drop_last through the commands.

#include <filesystem>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PreparedDataTest : public Workplace {
 protected:
  PreparedDataTest() {
    WriteModel("model");
    WriteConfig();
  }

  std::vector<json> Train(const std::string& out, std::vector<std::string> more,
                          std::vector<std::string> options = {}) const {
    std::vector<std::string> words = options;
    words.insert(words.end(), {"train", "config.yaml", "output_dir=" + out});
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(Run(words), Succeeds());
    return ReadJsonLines(Path(out + "/trainer_log.jsonl"));
  }

  static std::vector<double> Numbers(const std::vector<json>& log, const std::string& key) {
    std::vector<double> numbers;
    for (const json& line : log) {
      if (line.contains(key)) numbers.push_back(line[key]);
    }
    return numbers;
  }
};

// Written by one run (on two ranks) and read by the next one, whose data set is not even there any
// more: the same curves.
TEST_F(PreparedDataTest, IsWrittenThenRead) {
  const std::vector<std::string> keys = {"tokenized_path=kept", "val_size=2", "eval_strategy=steps",
                                         "eval_steps=2"};
  const std::vector<json> wrote = Train("wrote", keys, {"-n", "2"});
  ASSERT_TRUE(std::filesystem::exists(Path("kept/train/data-00000-of-00001.arrow")));
  std::filesystem::remove(Path("data/rows.jsonl"));
  const std::vector<json> read = Train("read", keys, {"-n", "2"});
  EXPECT_EQ(Numbers(wrote, "loss").size(), 3);
  EXPECT_EQ(Numbers(read, "loss"), Numbers(wrote, "loss"));
  EXPECT_EQ(Numbers(read, "eval_loss"), Numbers(wrote, "eval_loss"));
  EXPECT_THAT(Run({"train", "config.yaml", "output_dir=dpo", "stage=dpo", "tokenized_path=kept"}),
              FailsWith(2, AllOf(HasSubstr("kept/train/"),
                                 HasSubstr("are not those of stage rm or dpo, but of sft"))));
  EXPECT_THAT(
      Run({"train", "config.yaml", "output_dir=s", "streaming=true", "tokenized_path=kept"}),
      FailsWith(2, HasSubstr("tokenized_path and streaming exclude one another")));
  EXPECT_THAT(Run({"train", "config.yaml", "output_dir=f", "tokenized_path=config.yaml"}),
              FailsWith(2, HasSubstr("tokenized_path: config.yaml is a file")));
}

TEST_F(PreparedDataTest, PreprocessKeepsItToo) {
  ASSERT_THAT(Run({"preprocess", "config.yaml", "tokenized_path=kept"}), Succeeds());
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=a.jsonl"}), Succeeds());
  const CommandResult again = Run({"preprocess", "config.yaml", "tokenized_path=kept",
                                   "out=b.jsonl", "cutoff_len=9"});  // which says nothing any more
  ASSERT_THAT(again, Succeeds());
  EXPECT_EQ(ReadText(Path("b.jsonl")), ReadText(Path("a.jsonl")));
  EXPECT_THAT(Run({"preprocess", "config.yaml"}), FailsWith(2, HasSubstr("out")));
  EXPECT_THAT(
      Run({"train", "config.yaml", "tokenized_path=kept", "val_size=2", "eval_strategy=epoch"}),
      FailsWith(2, HasSubstr("tokenized_path: kept has no split 'validation'")));
}

TEST_F(PreparedDataTest, EvaluatesEachDataSet) {
  const json all = [&] {
    json info = ReadJson(Path("data/dataset_info.json"));
    info["few"] = {{"file_name", "few.jsonl"}};
    return info;
  }();
  Write("data/dataset_info.json", all.dump());
  Write("data/few.jsonl",
        "{\"instruction\": \"a\", \"output\": \"b c\"}\n{\"instruction\": \"d e\", \"output\": "
        "\"f\"}\n{\"instruction\": \"g\", \"output\": \"h i j\"}\n");
  const std::vector<std::string> keys = {"eval_on_each_dataset=true",
                                         "eval_dataset=rows,few",
                                         "eval_strategy=steps",
                                         "eval_steps=1",
                                         "save_steps=1",
                                         "load_best_model_at_end=true",
                                         "metric_for_best_model=few_loss",
                                         "tokenized_path=kept"};
  const std::vector<json> log = Train("each", keys);
  const std::vector<double> few = Numbers(log, "eval_few_loss");
  EXPECT_EQ(few.size(), 3);  // after each step; the one at the end is in eval_results.json
  EXPECT_EQ(Numbers(log, "eval_rows_loss").size(), 3);
  EXPECT_TRUE(Numbers(log, "eval_loss").empty());
  const json results = ReadJson(Path("each/eval_results.json"));
  for (const char* key : {"eval_few_loss", "eval_rows_loss", "eval_few_runtime",
                          "eval_rows_samples_per_second", "epoch"})
    EXPECT_TRUE(results.contains(key)) << key;
  EXPECT_EQ(results["eval_few_loss"],
            *std::min_element(few.begin(), few.end()));  // of the best model
  EXPECT_EQ(Numbers(Train("alone", {"eval_dataset=few", "eval_strategy=steps", "eval_steps=1"}),
                    "eval_loss")[0],
            few[0]);
  EXPECT_EQ(Numbers(Train("read", keys), "eval_few_loss"), few);  // as tokenized_path kept them

  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=p.jsonl", "eval_dataset=rows,few",
                   "eval_on_each_dataset=true"}),
              Succeeds());
  EXPECT_EQ(ReadText(Path("p.eval_rows.jsonl")), ReadText(Path("p.jsonl")));
  EXPECT_EQ(ReadJsonLines(Path("p.eval_few.jsonl")).size(), 3);
}

// Ten examples in batches of 4: with drop_last two an epoch, without it three.
TEST_F(PreparedDataTest, DropsTheLastBatch) {
  const std::vector<std::string> keys = {"max_steps=-1", "num_train_epochs=2",
                                         "per_device_train_batch_size=4",
                                         "gradient_accumulation_steps=1"};
  EXPECT_EQ(Numbers(Train("all", keys), "loss").size(), 6);
  std::vector<std::string> dropping = keys;
  dropping.push_back("dataloader_drop_last=true");
  const std::vector<json> dropped = Train("dropped", dropping);
  EXPECT_EQ(Numbers(dropped, "loss").size(), 4);
  EXPECT_EQ(dropped[1].at("epoch"), 1.0);
}

}  // namespace
}  // namespace moonring::testing
