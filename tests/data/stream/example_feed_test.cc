// Rows that are passed in one by one give the same examples as the same rows in a file. Also: rows
// of token ids, digests, and errors in a row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset.h"
#include "data/preprocess_writer.h"
#include "data/stream/example_feed.h"
#include "tests/data/golden_config.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::NamedTemplate;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::SmolLM2;
using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DatasetOptions Options(Stage stage = Stage::kSupervised) {
  DatasetOptions options;
  options.names = {"rows"};
  options.stage = stage;
  options.chat_template = NamedTemplate("chatml");
  options.cutoff_len = 24;
  options.threads = 3;
  return options;
}

std::unique_ptr<ExampleFeed> Open(const DatasetOptions& options,
                                  std::optional<OrderedJson> description = std::nullopt) {
  auto feed =
      ExampleFeed::Create({.dataset = options, .description = std::move(description)}, SmolLM2());
  EXPECT_OK(feed);
  return *std::move(feed);
}

std::vector<std::string> Lines(const std::vector<Example>& examples) {
  std::vector<std::string> lines;
  for (const Example& example : examples)
    lines.push_back(OrderedJson::parse(PreprocessedLine(example)).dump());
  return lines;
}

std::vector<OrderedJson> Rows(int count) {
  std::vector<OrderedJson> rows;
  for (int row = 0; row < count; ++row) {
    std::string answer;
    for (int word = 0; word < 3 + row * 5 % 17; ++word) answer += " moon";
    rows.push_back({{"instruction", "number " + std::to_string(row)}, {"output", answer}});
  }
  return rows;
}

// The examples equal those of PrepareDataset for a file with the same rows, for each way of
// processing rows together.
TEST(ExampleFeedTest, GivesTheExamplesOfAFile) {
  const ScratchFolder folder;
  const std::vector<OrderedJson> rows = Rows(23);
  std::string text;
  for (const OrderedJson& row : rows) text += row.dump() + "\n";
  folder.Write("rows.jsonl", text);
  folder.Write("dataset_info.json", R"({"rows": {"file_name": "rows.jsonl"}})");
  for (const char* kind : {"plain", "packing", "neat", "texts", "drop"}) {
    SCOPED_TRACE(kind);
    DatasetOptions options =
        Options(kind == std::string("texts") ? Stage::kPretraining : Stage::kSupervised);
    options.dataset_dir = folder.path();
    options.preprocessing_batch_size = 7;
    if (kind == std::string("packing")) options.packing = true;
    if (kind == std::string("neat")) options.neat_packing = true;
    if (kind == std::string("drop")) options.overlong = Overlong::kDrop;
    const auto whole = PrepareDataset(options, SmolLM2());
    ASSERT_OK(whole);
    ASSERT_GT(whole->examples.size(), 2);

    const auto feed = Open(options);
    std::vector<Example> taken;
    for (size_t row = 0; row < rows.size(); ++row) {
      ASSERT_OK(feed->Add(rows[row]));
      if ((row + 1) % 7 != 0 && row + 1 != rows.size()) continue;
      ASSERT_OK(feed->EndBatch());
      for (Example& example : feed->Take(feed->ready())) taken.push_back(std::move(example));
    }
    EXPECT_EQ(Lines(taken), Lines(whole->examples));

    const auto at_once = Open(options);
    for (const OrderedJson& row : rows) ASSERT_OK(at_once->Add(row));
    const auto finished = std::move(*at_once).Finish();
    ASSERT_OK(finished);
    EXPECT_EQ(Lines(finished->examples), Lines(whole->examples));
    EXPECT_EQ(finished->report.Json(), [&] {
      std::string json = whole->report.Json();  // rows are named by their file
      const std::string from = folder.path() + "/rows.jsonl";
      for (size_t at; (at = json.find(from)) != std::string::npos;)
        json.replace(at, json.find(" (row", at) - at, "rows");
      return json;
    }());
  }
}

TEST(ExampleFeedTest, TakesTokenIdsAsTheyAre) {
  const auto line = [](DatasetOptions options, const std::string& row) {
    const auto feed = Open(options);
    EXPECT_OK(feed->Add(OrderedJson::parse(row)));
    EXPECT_OK(feed->EndBatch());
    EXPECT_EQ(feed->ready(), 1) << row;
    return Lines(feed->Take(1)).at(0);
  };
  DatasetOptions options = Options();
  options.cutoff_len = 3;
  EXPECT_EQ(line(options, R"({"input_ids": [4, 5, 6], "labels": [-100, 5, 6]})"),
            R"({"input_ids":[4,5,6],"labels":[-100,5,6]})");
  EXPECT_EQ(line(options, R"({"input_ids": [4, 5, 6, 7]})"),
            R"({"input_ids":[4,5,6],"labels":[4,5,6]})");  // cut at its end
  const DatasetOptions texts = [] {
    DatasetOptions options = Options(Stage::kPretraining);
    options.cutoff_len = 4;
    return options;
  }();
  // Texts are concatenated and cut into blocks of four tokens. SmolLM2's pad token, 2, has no
  // label.
  const auto feed = Open(texts);
  for (const char* row : {R"({"input_ids": [1, 2, 3]})", R"({"input_ids": [4, 5, 6, 7]})"})
    ASSERT_OK(feed->Add(OrderedJson::parse(row)));
  ASSERT_OK(feed->EndBatch());
  EXPECT_THAT(Lines(feed->Take(9)),
              ElementsAre(R"({"input_ids":[1,2,3,4],"labels":[1,-100,3,4]})"));
  EXPECT_EQ(line(Options(Stage::kPairs),
                 R"({"chosen_input_ids": [1, 2], "chosen_labels": [-100, 2],
                     "rejected_input_ids": [1, 3], "rejected_labels": [-100, 3]})"),
            R"({"chosen_input_ids":[1,2],"chosen_labels":[-100,2],)"
            R"("rejected_input_ids":[1,3],"rejected_labels":[-100,3]})");
  EXPECT_EQ(line(Options(Stage::kFeedback),
                 R"({"input_ids": [1, 2], "labels": [-100, 2], "kl_input_ids": [1, 3],
                     "kl_labels": [-100, 3], "kto_tag": true})"),
            R"({"input_ids":[1,2],"labels":[-100,2],"kl_input_ids":[1,3],)"
            R"("kl_labels":[-100,3],"kto_tag":true})");
}

// Two passes with the same rows have the same digest; with other rows or in another order, the
// digest differs.
TEST(ExampleFeedTest, DigestsSayWhichRowsCame) {
  const std::vector<OrderedJson> rows = Rows(3);
  const auto digest = [&](const std::vector<int>& order) {
    const auto feed = Open(Options());
    for (const int row : order) EXPECT_OK(feed->Add(rows[row]));
    return feed->digest();
  };
  EXPECT_EQ(digest({0, 1, 2}), digest({0, 1, 2}));
  EXPECT_NE(digest({0, 1, 2}), digest({0, 2, 1}));
  EXPECT_NE(digest({0, 1}), digest({0, 1, 2}));
  const auto feed = Open(Options());
  ASSERT_OK(feed->Add(rows[0]));
  EXPECT_EQ(feed->TakeRowDigests().size(), 1);
  const auto replayed = Open(Options());
  ASSERT_OK(replayed->PassOver(rows[0]));
  EXPECT_EQ(replayed->digest(), feed->digest());
  EXPECT_EQ(replayed->rows(), 1);
  const auto going_on = Open(Options());
  going_on->Begin(1, feed->digest());
  ASSERT_OK(going_on->Add(rows[1]));
  EXPECT_EQ(going_on->digest(), digest({0, 1}));
  EXPECT_EQ(going_on->rows(), 2);
}

TEST(ExampleFeedTest, NamesTheRowThatIsWrong) {
  struct Case {
    Stage stage;
    std::string row, message;
  };
  const Case cases[] = {
      {Stage::kSupervised, "7", "rows (row 2): expected a table with 'messages', "},
      {Stage::kSupervised, "[1]", "rows (row 2): is a list, expected one of messages"},
      {Stage::kSupervised, "{}", "rows (row 2): expected 'messages', 'instruction' and 'output', "},
      {Stage::kSupervised, R"({"input_ids": []})",
       "rows (row 2): 'input_ids' must be a list of whole numbers, got an empty one"},
      {Stage::kSupervised, R"({"input_ids": [-1]})", "'input_ids' holds -1, expected 0 to 99"},
      {Stage::kSupervised, R"({"input_ids": [1], "labels": [100]})",
       "'labels' holds 100, expected 0 to 99 or -100"},
      {Stage::kPairs, R"({"input_ids": [1]})",
       "token ids with the key 'input_ids': this stage requires chosen_input_ids, chosen_labels, "},
      {Stage::kFeedback,
       R"({"input_ids": [1], "labels": [1], "kl_input_ids": [1], "kl_labels": [1]})",
       "'kto_tag' must be true or false, got null"},
      {Stage::kPretraining, R"({"input_ids": [1], "labels": [1]})",
       "'labels' do not go with packing, which joins texts"},
      {Stage::kSupervised, R"({"messages": [{"role": "user", "content": 1}]})",
       "rows (row 2): 'messages'[0]: 'content' must be a string, got number"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.row);
    DatasetOptions options = Options(each.stage);
    options.threads = 1;
    const auto feed = Open(options);
    feed->LimitIds(100);
    feed->Begin(1, "");
    absl::Status status = feed->Add(OrderedJson::parse(each.row));
    if (status.ok()) status = feed->EndBatch();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(each.message)));
  }
  const auto refused = [](const char* description, const char* message) {
    EXPECT_THAT(
        ExampleFeed::Create({.dataset = Options(), .description = OrderedJson::parse(description)},
                            SmolLM2()),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refused(R"({"formatting": "alpacca"})", "'formatting' is \"alpacca\", expected one of alpaca");
  refused(R"({"columns": {"prompt": "q"}})", "'columns' names no 'response'");
  refused(R"({"split": "train"})", "unknown key 'split'");
}

}  // namespace
}  // namespace moonring::data
