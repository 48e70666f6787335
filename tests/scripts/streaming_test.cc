// `moonring train` and `preprocess` with streaming: true: the examples of an epoch, the same losses
// on any number of ranks, and invalid settings.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class StreamingTest : public Workplace {
 protected:
  StreamingTest() {
    WriteModel("model");
    WriteConfig("streaming: true\nbuffer_size: 4\nmax_steps: 5\nlogging_steps: 1");
  }

  std::vector<json> Train(const std::string& out, std::vector<std::string> more,
                          std::vector<std::string> options = {}) const {
    std::vector<std::string> words = options;
    words.insert(words.end(), {"train", "config.yaml", "output_dir=" + out});
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(Run(words), Succeeds());
    std::vector<json> lines = ReadJsonLines(Path(out + "/trainer_log.jsonl"));
    if (!lines.empty()) lines.pop_back();
    return lines;
  }
};

// Ten rows in steps of four: one pass over the rows is three steps, the last of which is short; the
// fourth step begins the next pass. The log's epoch is the fraction of max_steps, as in the
// Trainer.
TEST_F(StreamingTest, RanksChangeNothing) {
  const std::vector<json> alone = Train("alone", {});
  ASSERT_EQ(alone.size(), 5);
  const double epochs[] = {0.2, 0.4, 0.6, 1.2, 1.4};
  for (int k = 0; k < 5; ++k) EXPECT_DOUBLE_EQ(alone[k].at("epoch").get<double>(), epochs[k]) << k;
  EXPECT_GE(ReadJson(Path("alone/data_report.json")).at("rows"),
            18);  // what five steps take, and what was read ahead
  struct Split {
    int ranks, sp, accumulation;
  };
  for (const Split& split : {Split{2, 2, 2}, Split{2, 1, 1}, Split{4, 2, 1}}) {
    const std::string name = std::to_string(split.ranks) + "_" + std::to_string(split.sp);
    const std::vector<json> shared =
        Train(name,
              {"sequence_parallel_size=" + std::to_string(split.sp),
               "gradient_accumulation_steps=" + std::to_string(split.accumulation)},
              {"-n", std::to_string(split.ranks)});
    ASSERT_EQ(shared.size(), alone.size()) << name;
    for (size_t k = 0; k < alone.size(); ++k) {
      EXPECT_NEAR(shared[k].at("loss").get<double>() / alone[k].at("loss").get<double>(), 1, 1e-5)
          << name << " " << k;
      EXPECT_EQ(shared[k].at("tokens"), alone[k].at("tokens")) << name << " " << k;
    }
  }
}

// preprocess writes the same examples from a stream as from a data set, in another order, without
// the rows that are reserved for evaluation.
TEST_F(StreamingTest, PreprocessWritesAPass) {
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=whole.jsonl", "streaming=false",
                   "preprocessing_num_workers=3"}),
              Succeeds());
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=pass.jsonl"}), Succeeds());
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=part.jsonl", "val_size=3",
                   "preprocessing_num_workers=2"}),
              Succeeds());
  const std::vector<json> whole = ReadJsonLines(Path("whole.jsonl")),
                          pass = ReadJsonLines(Path("pass.jsonl"));
  std::vector<json> part = ReadJsonLines(Path("part.eval.jsonl"));
  EXPECT_EQ(part.size(), 3);
  for (const json& line : ReadJsonLines(Path("part.jsonl"))) part.push_back(line);
  EXPECT_NE(pass, whole);
  EXPECT_EQ(part, pass);  // the first of the same order
  EXPECT_THAT(pass, ::testing::UnorderedElementsAreArray(whole));
}

TEST_F(StreamingTest, EvaluatesAtTheEndOfAPass) {
  const std::vector<json> log = Train("out", {"val_size=2", "eval_strategy=epoch", "max_steps=4"});
  std::vector<int> evaluated;
  for (const json& line : log) {
    if (line.contains("eval_loss")) evaluated.push_back(line.at("current_steps"));
  }
  // Eight rows are left: two steps a pass. The last evaluation is that after the training.
  EXPECT_THAT(evaluated, ::testing::ElementsAre(2, 4, 4));
}

TEST_F(StreamingTest, RefusesWhatNeedsTheWholeDataSet) {
  const auto refused = [&](const std::string& words, const std::string& message) {
    EXPECT_THAT(Run({"train", "config.yaml", words}), FailsWith(2, HasSubstr(message)));
  };
  refused("max_steps=-1", "streaming: expected max_steps beside it");
  refused("max_samples=3", "max_samples and streaming exclude one another");
  refused("val_size=0.1",
          "val_size: expected a number of rows with streaming, not a part of them, got 0.1");
  refused("buffer_size=0", "buffer_size: expected at least 1, got 0");
  refused("dataloader_num_workers=11", "its 10 rows cannot be cut in 11 parts");
  EXPECT_THAT(Run({"train", "config.yaml", "stage=dpo", "precompute_ref_log_probs=true"}),
              FailsWith(2, HasSubstr("precompute_ref_log_probs: a stream has no end")));
}

// The warning comes after the training: cutoff_len is so small that no target is left.
TEST_F(StreamingTest, WarnsOfACutoffBeforeItIsTooLate) {
  const CommandResult result = Run({"train", "config.yaml", "cutoff_len=6"});
  ASSERT_THAT(result, Succeeds());
  const std::string told = result.out + result.err;
  const size_t warned = told.find("cutoff_len leaves almost nothing to train on: ");
  ASSERT_NE(warned, std::string::npos) << told;
  EXPECT_LT(warned, told.find("step 2/")) << told;
  EXPECT_EQ(told.find("; so far"), told.rfind("; so far")) << told;
}

// An invalid row is found only when it is read: the run ends there, and the message names the row.
TEST_F(StreamingTest, NamesABadRow) {
  std::string rows;
  for (int row = 0; row < 9; ++row)
    rows += R"({"instruction": "a", "output": "b"})"
            "\n";
  Write("data/late.jsonl", rows + R"({"instruction": 1, "output": "b"})"
                                  "\n");
  json info = ReadJson(Path("data/dataset_info.json"));
  info["late"] = {{"file_name", "late.jsonl"}};
  Write("data/dataset_info.json", info.dump());
  EXPECT_THAT(
      Run({"train", "config.yaml", "dataset=late", "preprocessing_batch_size=2",
           "preprocessing_num_workers=2"}),
      ::testing::AllOf(
          ::testing::Field(&CommandResult::exit_code, ::testing::Ne(0)),
          ::testing::Field(
              &CommandResult::err,
              HasSubstr("late.jsonl:10 (row 10): 'instruction' must be a string, got number"))));
}

// Interrupted in a file of MOONRING_STREAM_MB megabytes, a reader gives the same rest of the pass
// and start of the next one as an uninterrupted reader, and reads no row twice to find its
// position.
TEST_F(StreamingTest, ResumesAtNineTenthsOfAFile) {
  const char* asked = std::getenv("MOONRING_STREAM_MB");
  const int64_t bytes = (asked != nullptr ? std::atoll(asked) : 2) * 1'000'000;
  Write("dataset_info.json", R"({"big": {"file_name": "big.jsonl"}})");
  int64_t rows = 0;
  {
    std::ofstream file(Path("big.jsonl"));
    for (; file.tellp() < bytes; ++rows) {
      std::string text;
      for (int64_t word = 0; word < 40; ++word)
        text += " " + std::to_string((rows * 7919 + word * 104729) % 9973);
      file << R"({"instruction": "row )" << rows << R"(", "input": "", "output": ")" << text
           << "\"}\n";
    }
  }
  constexpr int64_t kBatch = 64;
  const int64_t pass = rows / kBatch;
  const std::vector<std::string> place = {std::to_string(kBatch), std::to_string(pass + 20),
                                          std::to_string(pass * 9 / 10)};
  for (const std::string mode : {"whole", "rest"}) {
    std::vector<std::string> words = {Runfile("tests/scripts/stream_place.lua"), mode, "model",
                                      "state", mode + ".txt"};
    words.insert(words.end(), place.begin(), place.end());
    const CommandResult result = Run(words);
    ASSERT_THAT(result, Succeeds());
    std::printf("%lld MB, %s", static_cast<long long>(bytes / 1'000'000), result.out.c_str());
  }
  const std::string rest = ReadText(Path("rest.txt"));
  EXPECT_EQ(rest, ReadText(Path("whole.txt")));
  EXPECT_THAT(rest, HasSubstr("epoch 1 "));
}

}  // namespace
}  // namespace moonring::testing
