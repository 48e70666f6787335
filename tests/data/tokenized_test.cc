// Prepared data on disk: folders written by LLaMA-Factory 0.9.5 (tests/golden/tokenized) contain
// the same examples as Moonring prepares; folders that Moonring writes can be read again; other
// folders are rejected with a one-line message.
#include "data/tokenized_folder.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/dataset.h"
#include "data/example_digest.h"
#include "data/files/row_source.h"
#include "data/preprocess_writer.h"
#include "data/stream/example_feed.h"
#include "data/text/chat_template.h"
#include "tests/data/golden_config.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

namespace fs = std::filesystem;
using ::moonring::testing::OptionsOf;
using ::moonring::testing::ReadRunfile;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::SmolLM2;
using ::moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kFolders[] = "tests/golden/tokenized/";

// The configurations by name, as in make.py except for val_size.
const std::map<std::string, json>& Cases() {
  static const auto& cases = *new std::map<std::string, json>{
      {"sft", {{"dataset", "own"}, {"template", "chatml"}, {"cutoff_len", 64}}},
      {"rows",
       {{"dataset", "own"}, {"template", "chatml"}, {"cutoff_len", 128}, {"packing", true}}},
      {"neat_rows",
       {{"dataset", "chats"},
        {"template", "smollm2"},
        {"cutoff_len", 100},
        {"neat_packing", true}}},
      {"pt", {{"stage", "pt"}, {"dataset", "texts"}, {"template", "default"}, {"cutoff_len", 32}}},
      {"dpo", {{"stage", "dpo"}, {"dataset", "pairs"}, {"template", "chatml"}, {"cutoff_len", 60}}},
      {"kto",
       {{"stage", "kto"}, {"dataset", "judged"}, {"template", "chatml"}, {"cutoff_len", 60}}}};
  return cases;
}

std::vector<std::string> LinesOf(const std::vector<Example>& examples) {
  std::vector<std::string> lines;
  for (const Example& example : examples) lines.push_back(PreprocessedLine(example));
  return lines;
}

int32_t PadOf(const DatasetOptions& options) {
  return ChatTemplate::Create(options.chat_template, SmolLM2())->pad();
}

TEST(TokenizedTest, ReadsLlamaFactorysFolders) {
  for (const auto& [name, config] : Cases()) {
    const DatasetOptions options = OptionsOf(config, "tests/golden/preprocess/data");
    ASSERT_OK_AND_ASSIGN(auto loaded,
                         LoadTokenized(kFolders + name, options.stage, PadOf(options)));
    PreparedDataset prepared;
    if (name == "sft") {
      ASSERT_OK_AND_ASSIGN(auto parts, PrepareSplit(options, SmolLM2(), 5));
      EXPECT_EQ(LinesOf(loaded.at("validation").examples), LinesOf(parts.second.examples));
      prepared = std::move(parts.first);
    } else {
      EXPECT_EQ(loaded.size(), 1) << name;
      ASSERT_OK_AND_ASSIGN(prepared, PrepareDataset(options, SmolLM2()));
    }
    const PreparedDataset& train = loaded.at("train");
    EXPECT_EQ(LinesOf(train.examples), LinesOf(prepared.examples)) << name;
    EXPECT_EQ(train.report.examples, prepared.report.examples);
    EXPECT_EQ(train.report.tokens, prepared.report.tokens);
    EXPECT_EQ(train.report.learnt, prepared.report.learnt);
  }
  ASSERT_OK_AND_ASSIGN(const auto each,
                       LoadTokenized(std::string(kFolders) + "each", Stage::kSupervised, 0));
  std::vector<std::string> splits;
  for (const auto& [name, prepared] : each) splits.push_back(name);
  EXPECT_THAT(splits, ::testing::ElementsAre("train", "validation_chats", "validation_renamed"));
}

// The rows of a prepared split, passed to ExampleFeed one by one, give the same examples.
TEST(TokenizedTest, ItsRowsAreFedOneByOne) {
  for (const auto& [name, config] : Cases()) {
    SCOPED_TRACE(name);
    DatasetOptions options = OptionsOf(config, "tests/golden/preprocess/data");
    ASSERT_OK_AND_ASSIGN(auto loaded,
                         LoadTokenized(kFolders + name, options.stage, PadOf(options), "", false));
    EXPECT_FALSE(loaded.contains("train"));
    ASSERT_OK_AND_ASSIGN(loaded, LoadTokenized(kFolders + name, options.stage, PadOf(options)));
    ASSERT_OK_AND_ASSIGN(const auto files, TokenizedTrainFiles(kFolders + name));
    ASSERT_OK_AND_ASSIGN(const auto rows, RowSource::Open(files));
    options.names = {"kept"};
    ASSERT_OK_AND_ASSIGN(const auto feed,
                         ExampleFeed::Create({.dataset = options, .prepared = true}, SmolLM2()));
    EXPECT_FALSE(feed->joins_rows());
    std::vector<Example> examples;
    int64_t highest = 0;
    while (true) {
      ASSERT_OK_AND_ASSIGN(auto row, rows->Next());
      if (!row.has_value()) break;
      ASSERT_OK(feed->Add(std::move(row->value)));
      ASSERT_OK(feed->EndBatch());
      for (Example& example : feed->Take(1)) {
        for (const Document& document : example.documents)
          highest = std::max<int64_t>(highest,
                                      *std::max_element(document.ids.begin(), document.ids.end()));
        examples.push_back(std::move(example));
      }
    }
    EXPECT_EQ(LinesOf(examples), LinesOf(loaded.at("train").examples));
    EXPECT_EQ(DigestOf(examples), DigestOf(loaded.at("train").examples));
    EXPECT_EQ(feed->report().Json(), loaded.at("train").report.Json());
    feed->LimitIds(highest);
    ASSERT_OK_AND_ASSIGN(const auto again, RowSource::Open(files));
    absl::Status status;
    while (status.ok()) {
      ASSERT_OK_AND_ASSIGN(auto row, again->Next());
      ASSERT_TRUE(row.has_value());
      status = feed->Add(std::move(row->value));
    }
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("holds the token " + std::to_string(highest))));
  }
}

TEST(TokenizedTest, ReadsWhatItWrites) {
  ScratchFolder folder;
  for (const auto& [name, config] : Cases()) {
    const DatasetOptions options = OptionsOf(config, "tests/golden/preprocess/data");
    ASSERT_OK_AND_ASSIGN(const PreparedDataset prepared, PrepareDataset(options, SmolLM2()));
    const std::string path = folder.path() + "/" + name;
    EXPECT_FALSE(HasTokenized(path));
    const std::vector<Example> few(prepared.examples.begin(), prepared.examples.begin() + 2);
    fs::create_directories(path);  // an empty folder counts as absent
    ASSERT_OK(
        SaveTokenized(path, {{"train", &prepared.examples}, {"validation", &few}}, options.stage));
    EXPECT_TRUE(HasTokenized(path));
    ASSERT_OK_AND_ASSIGN(const auto loaded, LoadTokenized(path, options.stage, PadOf(options)));
    EXPECT_EQ(loaded.size(), 2);
    EXPECT_EQ(LinesOf(loaded.at("train").examples), LinesOf(prepared.examples)) << name;
    EXPECT_EQ(LinesOf(loaded.at("validation").examples), LinesOf(few)) << name;
    EXPECT_EQ(DigestOf(loaded.at("train").examples), DigestOf(prepared.examples)) << name;
  }
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    left.push_back(entry.path().filename());
  EXPECT_THAT(left,
              ::testing::UnorderedElementsAre("dpo", "kto", "neat_rows", "pt", "rows", "sft"));
}

TEST(TokenizedTest, RefusesOtherFolders) {
  ScratchFolder folder;
  const auto error = [&](const std::string& name, Stage stage = Stage::kSupervised) {
    return std::string(LoadTokenized(folder.path() + "/" + name, stage, 0).status().message());
  };
  const auto copy = [&](const std::string& name, const std::string& as) {
    fs::create_directories(folder.path() + "/" + as);
    fs::copy(kFolders + name, folder.path() + "/" + as,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  };
  copy("sft", "a");
  EXPECT_THAT(error("a", Stage::kPairs),
              HasSubstr("(row 1): its columns (input_ids, attention_mask, labels, images, videos, "
                        "audios) are not those of stage rm or dpo, but of sft"));
  EXPECT_THAT(error("a", Stage::kPretraining), HasSubstr("are not those of stage pt, but of sft"));
  copy("kto", "b");
  EXPECT_THAT(error("b"), HasSubstr("are not those of stage sft, but of kto"));
  folder.Write("c/file.txt", "x");
  EXPECT_THAT(error("c"),
              HasSubstr("c/dataset_dict.json: no such file: this is no folder of prepared data"));
  folder.Write("c/dataset_dict.json", "{\"splits\": [\"test\"]}");
  EXPECT_THAT(error("c"), HasSubstr("c/dataset_dict.json: has no split 'train'"));
  folder.Write("c/dataset_dict.json", "{\"splits\": [\"train\"");
  EXPECT_THAT(error("c"), HasSubstr("c/dataset_dict.json:1:"));
  folder.Write("c/dataset_dict.json", "{\"splits\": [\"train\"]}");
  EXPECT_THAT(error("c"), HasSubstr("c/train/state.json: no such file"));
  folder.Write("c/train/state.json", "{}");
  EXPECT_THAT(error("c"), HasSubstr("c/train/state.json: names no files"));
  folder.Write("c/train/state.json", R"({"_data_files": [{"filename": "data.arrow"}]})");
  EXPECT_THAT(error("c"), HasSubstr("c/train/data.arrow: "));
  const std::string arrow =
      ReadRunfile(std::string(kFolders) + "sft/train/data-00000-of-00001.arrow");
  folder.Write("c/train/data.arrow", arrow.substr(0, arrow.size() / 2));
  EXPECT_THAT(error("c"), HasSubstr("c/train/data.arrow"));
  folder.Write("c/train/data.arrow", "no arrow");
  EXPECT_THAT(error("c"), HasSubstr("c/train/data.arrow"));
  const std::vector<Example> one = {{.documents = {{{1}, {1}}}}};
  EXPECT_THAT(SaveTokenized(folder.path() + "/c", {{"train", &one}}, Stage::kSupervised),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("/c: another process has")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()),
            3);  // no temporary folder remains
}

}  // namespace
}  // namespace moonring::data
