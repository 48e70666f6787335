// The keys tokenized_path, eval_on_each_dataset, dataloader_drop_last and group_by_length in
// commands.

#include <algorithm>
#include <filesystem>
#include <sstream>
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

// One run (on two ranks) writes the prepared data set, the next one reads it when the original
// files no longer exist: the loss curves are the same.
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
  EXPECT_THAT(Run({"train", "config.yaml", "output_dir=f", "tokenized_path=config.yaml"}),
              FailsWith(2, HasSubstr("tokenized_path: config.yaml is a file")));
}

// A streamed data set gives the same steps as one that is read as a whole in its order, over
// several epochs and after an interruption; the evaluation is the same.
TEST_F(PreparedDataTest, IsReadAsAStream) {
  ASSERT_THAT(Run({"preprocess", "config.yaml", "tokenized_path=kept", "val_size=2"}), Succeeds());
  const auto keys = [](std::vector<std::string> more) {
    more.insert(more.end(), {"tokenized_path=kept", "eval_strategy=steps", "eval_steps=2",
                             "logging_steps=1", "save_steps=4"});
    return more;
  };
  const std::vector<std::string> streamed = {"streaming=true", "max_steps=9"};
  const std::vector<json> whole = Train("whole", keys({"disable_shuffling=true", "max_steps=9"}));
  std::filesystem::remove(Path("data/rows.jsonl"));
  const std::vector<json> stream = Train("stream", keys(streamed));
  EXPECT_EQ(Numbers(whole, "loss").size(), 9);
  EXPECT_EQ(Numbers(stream, "loss"), Numbers(whole, "loss"));
  EXPECT_EQ(Numbers(stream, "eval_loss"), Numbers(whole, "eval_loss"));
  const std::vector<json> ranks = Train("ranks", keys(streamed), {"-n", "2"});
  EXPECT_EQ(Numbers(ranks, "loss").size(), 9);
  std::filesystem::remove_all(Path("stream/checkpoint-8"));
  std::filesystem::remove_all(Path("stream/checkpoint-9"));
  std::vector<std::string> again = keys(streamed);
  again.push_back("resume_from_checkpoint=stream/checkpoint-4");
  EXPECT_EQ(Numbers(Train("stream", again), "loss"), Numbers(whole, "loss"));
  EXPECT_THAT(
      Run({"train", "config.yaml", "output_dir=e", "streaming=true", "tokenized_path=nothing"}),
      FailsWith(2, HasSubstr("tokenized_path: nothing holds nothing yet")));
  EXPECT_THAT(Run({"train", "config.yaml", "output_dir=d", "streaming=true", "tokenized_path=kept",
                   "stage=dpo"}),
              FailsWith(2, HasSubstr("are not those of stage rm or dpo, but of sft")));
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

// A script that prints the examples of each step without training.
constexpr char kExamples[] = R"(
  local moonring = require "moonring"
  local run = moonring.run.open(moonring.config.command(arg))
  print(table.concat(run.data:lengths(), " "))
  for step in run:steps() do
    local all = {}
    for _, micro in ipairs(step:micro_batches()) do
      local places = micro:places()
      for i, example in ipairs(micro:examples()) do all[places[i] + 1] = example end
    end
    print(table.concat(all, " "))
  end
)";

class GroupByLengthTest : public PreparedDataTest {
 protected:
  GroupByLengthTest() {
    Write("examples.lua", kExamples);
    std::string rows;
    for (int i = 0; i < 42; ++i) {
      std::string answer;
      for (int word = 0; word <= i * 29 % 17; ++word) answer += " moon";
      rows += json{{"instruction", "Tell me"}, {"input", ""}, {"output", answer}}.dump() + "\n";
    }
    Write("data/rows.jsonl", rows);
  }

  // Returns the numbers of the output's first line, then those of each step.
  std::vector<std::vector<int>> Examples(std::vector<std::string> more) const {
    more.insert(more.begin(), {"examples.lua", "config.yaml", "num_train_epochs=2", "max_steps=-1",
                               "gradient_accumulation_steps=1", "overwrite_output_dir=true"});
    const CommandResult result = Run(more);
    EXPECT_THAT(result, Succeeds());
    std::vector<std::vector<int>> lines;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) {
      std::istringstream words(line);
      lines.emplace_back();
      for (int number; words >> number;) lines.back().push_back(number);
    }
    return lines;
  }
};

// 42 examples in steps of two: groups of five steps have similar lengths. Each epoch has its own
// order.
TEST_F(GroupByLengthTest, StepsAreOfLikeLengths) {
  const auto plain = Examples({}), grouped = Examples({"group_by_length=true"});
  ASSERT_EQ(plain.size(), 43);
  const std::vector<int>& lengths = grouped[0];
  ASSERT_EQ(plain[0], lengths);
  std::vector<std::vector<int>> wanted = {lengths};
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int> order;
    for (int step = 0; step < 21; ++step)
      order.insert(order.end(), plain[1 + 21 * epoch + step].begin(),
                   plain[1 + 21 * epoch + step].end());
    std::vector<int> heads;
    for (int begin = 0; begin < 42; begin += 10) {
      heads.push_back(begin);
      std::stable_sort(order.begin() + begin, order.begin() + std::min(begin + 10, 42),
                       [&](int a, int b) { return lengths[a] > lengths[b]; });
    }
    const auto longest = std::max_element(heads.begin(), heads.end(), [&](int a, int b) {
      return lengths[order[a]] < lengths[order[b]];
    });
    std::swap(order[0], order[*longest]);
    for (int begin = 0; begin < 42; begin += 2) wanted.push_back({order[begin], order[begin + 1]});
  }
  EXPECT_EQ(grouped, wanted);
  EXPECT_EQ(Examples({"group_by_length=true", "disable_shuffling=true"}),
            Examples({"disable_shuffling=true"}));
}

TEST_F(GroupByLengthTest, StepsAreTheSameOnAnyRanks) {
  const std::vector<std::string> keys = {"group_by_length=true", "max_steps=5"};
  const std::vector<double> one = Numbers(Train("one", keys), "loss");
  ASSERT_EQ(one.size(), 5);
  for (const std::string more : {"per_device_train_batch_size=1", "sequence_parallel_size=2"}) {
    std::vector<std::string> words = keys;
    words.push_back(more);
    const std::vector<double> two =
        Numbers(Train("two" + more.substr(0, 3), words, {"-n", "2"}), "loss");
    ASSERT_EQ(two.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-5 * one[i]) << more;
  }
}

// Lengths are read from a named column of tokenized_path's rows: tests/golden/tokenized/lengths has
// such a column, which make.py set to 7 i mod 11 + 1.
TEST_F(GroupByLengthTest, LengthsMayBeAColumn) {
  const std::string kept = "tokenized_path=" + Runfile("tests/golden/tokenized/lengths");
  const auto in_order = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {kept, "group_by_length=true",
                                      "per_device_train_batch_size=100", "num_train_epochs=1"};
    words.insert(words.end(), more.begin(), more.end());
    return Examples(words);
  };
  const auto of = [](int example) { return 7 * example % 11 + 1; };
  const std::vector<int> by_column = in_order({})[1];
  ASSERT_GE(by_column.size(), 20);
  for (size_t i = 1; i < by_column.size(); ++i)
    EXPECT_GE(of(by_column[i - 1]), of(by_column[i])) << i;
  const auto by_tokens = in_order({"length_column_name=none"});
  EXPECT_NE(by_tokens[1], by_column);
  for (size_t i = 1; i < by_tokens[1].size(); ++i)
    EXPECT_GE(by_tokens[0][by_tokens[1][i - 1]], by_tokens[0][by_tokens[1][i]]) << i;
  EXPECT_THAT(
      Run({"train", "config.yaml", kept, "group_by_length=true", "length_column_name=labels",
           "output_dir=bad"}),
      FailsWith(2, HasSubstr("column 'labels': expected a whole number in each row, got array")));
}

TEST_F(GroupByLengthTest, RequiresAllExamples) {
  EXPECT_THAT(Run({"train", "config.yaml", "group_by_length=true", "streaming=true"}),
              FailsWith(2, HasSubstr("group_by_length and streaming exclude one another")));
  Write("mine.lua", R"(
    local moonring = require "moonring"
    moonring.run.open(moonring.config.command(arg), { order = function(lengths) return {} end })
  )");
  EXPECT_THAT(Run({"mine.lua", "config.yaml", "group_by_length=true"}),
              FailsWith(2, HasSubstr("order: the script says which examples a step takes; leave "
                                     "group_by_length out")));
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
  EXPECT_EQ(few.size(), 4);  // after each step, and after the training
  EXPECT_EQ(Numbers(log, "eval_rows_loss").size(), 4);
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

// Ten examples in batches of 4 are two batches per epoch with drop_last, and three without.
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
