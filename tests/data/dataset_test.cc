// Preparation of whole data sets: equal to LLaMA-Factory 0.9.5 token for token
// (tests/golden/preprocess, with SmolLM2's tokenizer); reports; invalid input.
#include "data/dataset.h"

#include <algorithm>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/description/dataset_info.h"
#include "data/example_digest.h"
#include "data/files/row_source.h"
#include "data/formats/alpaca.h"
#include "data/formats/format_table.h"
#include "data/preprocess_writer.h"
#include "data/text/chat_template.h"
#include "data/truncation.h"
#include "tests/data/golden_config.h"
#include "tests/data/text/named_templates.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::NamedTemplate;
using ::moonring::testing::Names;
using ::moonring::testing::OptionsOf;
using ::moonring::testing::ReadRunfile;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::SmolLM2;
using ::moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kGolden[] = "tests/golden/preprocess/";

std::string Lines(const std::vector<Example>& examples) {
  std::string text;
  for (const Example& example : examples) text += PreprocessedLine(example) + "\n";
  return text;
}

// Returns {training examples, evaluation examples (empty if the case has none)}.
absl::StatusOr<std::pair<std::vector<Example>, std::vector<Example>>> PrepareCase(
    const json& config, int64_t threads) {
  DatasetOptions options = OptionsOf(config, std::string(kGolden) + "data");
  options.threads = threads;
  if (config.contains("val_size")) {
    ASSIGN_OR_RETURN(const auto parts, PrepareSplit(options, SmolLM2(), config["val_size"]));
    return std::pair(parts.first.examples, parts.second.examples);
  }
  ASSIGN_OR_RETURN(const PreparedDataset train, PrepareDataset(options, SmolLM2()));
  if (!config.contains("eval_dataset")) return std::pair(train.examples, std::vector<Example>());
  options.names = Names(config["eval_dataset"]);
  ASSIGN_OR_RETURN(const PreparedDataset evaluated, PrepareDataset(options, SmolLM2()));
  return std::pair(train.examples, evaluated.examples);
}

// All cases equal LLaMA-Factory's. If truncation leaves no labels, Moonring rejects the data, while
// LLaMA-Factory writes it; for these cases the ids are compared at the end of the test.
TEST(DatasetTest, IsTokenEqualWithLlamaFactory) {
  const json cases = json::parse(ReadRunfile(std::string(kGolden) + "cases.json"));
  ASSERT_GE(cases.size(), 89);
  int64_t threads = 0;  // the cases use 1 to 4 threads in turn
  for (const json& golden : cases) {
    const std::string name = golden["name"];
    threads = threads % 4 + 1;
    const auto prepared = PrepareCase(golden["config"], threads);
    if (name == "own_tiny_1" || name == "own_tiny_2") {
      EXPECT_THAT(
          prepared.status(),
          StatusIs(absl::StatusCode::kInvalidArgument,
                   HasSubstr("is too small: it leaves no token to train on in any of 8 examples")))
          << name;
      continue;
    }
    ASSERT_OK(prepared) << name;
    const auto& [train, evaluated] = *prepared;
    EXPECT_EQ(train.size(), golden["examples"]) << name;
    EXPECT_EQ(Lines(train), ReadRunfile(std::string(kGolden) + golden["file"].get<std::string>()))
        << name;
    EXPECT_EQ(evaluated.size(), golden.value("eval_examples", 0)) << name;
    if (golden.contains("eval_file")) {
      EXPECT_EQ(Lines(evaluated),
                ReadRunfile(std::string(kGolden) + golden["eval_file"].get<std::string>()))
          << name;
    }
  }
}

TEST(DatasetTest, TruncatesToNothingAsLlamaFactory) {
  const ChatTemplate chat = *ChatTemplate::Create(NamedTemplate("chatml"), SmolLM2());
  const auto description =
      ReadDatasetInfo(std::string(kGolden) + "data", {"own"}, RowFormatNames());
  for (const int64_t cutoff_len : {1, 2}) {
    const auto source = RowSource::Open(description->front().files);
    std::vector<Example> examples;
    for (int row = 0; row < 8; ++row) {
      const auto converted =
          ConvertAlpaca((*(*source)->Next())->value, description->front(), Stage::kSupervised);
      examples.push_back(
          {.documents = {BuildConversation(*chat.EncodeTurns(converted->conversation),
                                           {.cutoff_len = cutoff_len})
                             .document}});
    }
    EXPECT_EQ(Lines(examples), ReadRunfile(std::string(kGolden) + "golden/own_tiny_" +
                                           std::to_string(cutoff_len) + ".jsonl"));
  }
}

TEST(DatasetTest, TurnsWithoutLabels) {
  const std::vector<EncodedTurn> turns = {
      {.prompt = {1, 2}, .response = {3, 4}, .learns_response = false},
      {.prompt = {5, 6}, .response = {7}, .learns_prompt = false},
      {.prompt = {8, 9}, .response = {10}}};
  const auto labels = [&](const LearnOptions& options) {
    return BuildConversation(turns, options).document.labels;
  };
  constexpr int n = kNotLearnt;
  EXPECT_THAT(labels({}), ElementsAre(n, n, n, n, n, n, 7, n, n, 10));
  EXPECT_THAT(labels({.train_on_prompt = true}), ElementsAre(1, 2, n, n, n, n, 7, 8, 9, 10));
  EXPECT_THAT(labels({.mask_history = true}), ElementsAre(n, n, n, n, n, n, n, n, n, 10));
  // An eos that separates turns belongs to the answer before it: it is a label if that answer is
  // trained.
  EXPECT_THAT(labels({.efficient_eos = 99}), ElementsAre(n, n, n, n, n, n, 7, 99, n, 10, 99));
  std::vector<EncodedTurn> last = turns;
  last.back().learns_response = false;
  EXPECT_THAT(BuildConversation(last, {.efficient_eos = 99}).document.labels,
              ElementsAre(n, n, n, n, n, n, 7, 99, n, n, n));
}

// A folder with one data set "d", and the result of preparing it.
class OwnDataTest : public ::testing::Test {
 protected:
  void Describe(const std::string& rows, const std::string& more = "") {
    folder_.Write("d.json", rows);
    folder_.Write("dataset_info.json", "{\"d\": {\"file_name\": \"d.json\"" + more + "}}");
  }
  absl::StatusOr<PreparedDataset> Prepare(DatasetOptions options = {}) {
    options.names = {"d"};
    options.dataset_dir = folder_.path();
    options.chat_template = NamedTemplate("chatml");
    options.threads = threads_;
    return PrepareDataset(options, SmolLM2());
  }
  // Returns the error message without the path of the test's folder.
  std::string ErrorOf(const DatasetOptions& options = {}) {
    std::string message(Prepare(options).status().message());
    for (size_t at; (at = message.find(folder_.path() + "/")) != std::string::npos;)
      message.erase(at, folder_.path().size() + 1);
    return message;
  }
  ScratchFolder folder_;
  int64_t threads_ = 1;
};

TEST_F(OwnDataTest, NamesTheColumnThatAParquetFileLacks) {
  folder_.Write("d.parquet", ReadRunfile("tests/golden/files/data/flat.parquet"));
  folder_.Write(
      "dataset_info.json",
      R"({"d": {"file_name": "d.parquet", "columns": {"prompt": "txt", "response": "large"}}})");
  EXPECT_THAT(ErrorOf(), HasSubstr("data set 'd': d.parquet: no row has the key 'txt', which is to "
                                   "be its prompt (did you mean 'text'?); rows have large, text"));
}

TEST_F(OwnDataTest, CountsAndReports) {
  Describe(R"([{"instruction": "a", "output": "b"},
               {"instruction": "a", "output": null},
               {"instruction": "a b c d e f g h i j k l m n o p q r s t u v w x y z", )"
           R"("output": "b"},
               {"instruction": "a"}])");
  ASSERT_OK_AND_ASSIGN(const PreparedDataset prepared, Prepare({.cutoff_len = 16}));
  const DatasetReport& report = prepared.report;
  EXPECT_EQ(report.rows, 4);
  EXPECT_EQ(report.examples, 2);
  EXPECT_EQ(
      report.tokens,
      13 + 16);  // <|im_start|> user \n a <|im_end|> \n <|im_start|> ass istant \n, b <|im_end|> \n
  EXPECT_EQ(report.learnt, 6);
  EXPECT_EQ(report.truncated, 1);
  EXPECT_EQ(report.nothing_learnt, 0);
  ASSERT_EQ(report.skipped.size(), 1);
  EXPECT_EQ(report.skipped[0].count, 2);
  EXPECT_EQ(report.skipped[0].what, "no 'output'");
  EXPECT_THAT(report.skipped[0].first, EndsWith("d.json:2 (row 2)"));
  json told = json::parse(report.Json());
  EXPECT_EQ(
      told["lengths"],
      json::parse(R"([{"from": 8, "to": 15, "rows": 1}, {"from": 32, "to": 63, "rows": 1}])"));
  EXPECT_EQ(told["skipped"][0]["what"], "no 'output'");
  for (const char* gone : {"lengths", "skipped"}) told.erase(gone);
  EXPECT_EQ(
      told,
      json::parse(
          R"({"rows": 4, "examples": 2, "tokens": 29, "learnt": 6, "truncated": 1, "starved": 0,
                      "nothing_learnt": 0, "longest": 38, "left_over": 0,
                      "noted": []})"));
  std::string text = report.Text();
  text.erase(text.find(folder_.path()), folder_.path().size() + 1);
  const std::string bar(40, '#');
  EXPECT_EQ(text,
            "examples: 2 of 4 rows, 29 tokens, 6 trained\n"
            "skipped rows, no 'output': 2; the first is d.json:2 (row 2)\n"
            "examples cut to cutoff_len: 1; the longest row has 38 tokens\n"
            "tokens a row, uncut:\n"
            "        8 to 15               1 " +
                bar +
                "\n"
                "       16 to 31               0\n"
                "       32 to 63               1 " +
                bar + "\n");
}

// Rows in the openai format: 700 of different lengths, some of them skipped and some noted, give
// the same examples and the same report with any number of threads. If there are two invalid rows,
// or an invalid row before broken JSON, the error is that of the first.
constexpr char kOpenai[] =
    R"(, "formatting": "openai", "columns": {"messages": "m", "tools": "tools", "system": "sys"},
       "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user",
                "assistant_tag": "assistant", "observation_tag": "tool", "system_tag": "system"})";

// The descriptions under which the report counts rows.
std::vector<std::string> Told(const std::vector<CountedRows>& rows) {
  std::vector<std::string> told;
  for (const CountedRows& each : rows) told.push_back(absl::StrCat(each.count, " ", each.what));
  return told;
}

std::string Conversation(const std::string& first, const std::string& second,
                         const std::string& user = "") {
  return R"({"m": [{"role": "user", "content": "a"},
             {"role": "assistant", "content": "b")" +
         first + R"(}, {"role": "user", "content": "c")" + user +
         R"(}, {"role": "assistant", "content": "d")" + second + "}]}";
}

TEST_F(OwnDataTest, TrainsOnMarkedTurns) {
  const std::string no = ", \"weight\": 0", yes = ", \"weight\": 1";
  const auto learnt = [&](const std::string& row, DatasetOptions options = {}) {
    Describe(row, kOpenai);
    options.cutoff_len = 128;
    const auto prepared = Prepare(options);
    return prepared.ok() ? std::to_string(prepared->report.learnt)
                         : std::string(prepared.status().message());
  };
  EXPECT_EQ(learnt(Conversation("", "")), "6");  // each row: its letter, <|im_end|> and \n
  EXPECT_EQ(learnt(Conversation(no, "")), "3");
  EXPECT_EQ(learnt(Conversation(no, yes)), "3");
  EXPECT_EQ(learnt(Conversation("", no)), "3");
  EXPECT_EQ(learnt(Conversation("", no), {.one_turn = true}), "3");
  EXPECT_EQ(learnt(Conversation("", no), {.packing = true}), "3");
  EXPECT_EQ(learnt(Conversation(no, ""), {.mask_history = true}), "3");
  EXPECT_EQ(
      learnt(Conversation("", "", no), {.train_on_prompt = true}),
      std::to_string(std::stoi(learnt(Conversation("", ""), {.train_on_prompt = true})) - 10));
  EXPECT_THAT(
      learnt(Conversation(no, no)),
      HasSubstr("none of 1 rows gives an example; 1 all of whose answers are marked (weight, "
                "loss, trainable) as not trained, first at "));
  EXPECT_THAT(learnt(Conversation("", no), {.mask_history = true}),
              HasSubstr("1 all of whose answers are marked"));
  Describe(Conversation(no, "", yes) + Conversation("", ""), kOpenai);
  ASSERT_OK_AND_ASSIGN(const PreparedDataset prepared, Prepare({.cutoff_len = 128}));
  EXPECT_THAT(
      Told(prepared.report.noted),
      ElementsAre("1 with marks (weight, loss, trainable) of answers that are not "
                  "trained",
                  "1 with marks (weight, loss, trainable) of messages of the user or a tool "
                  "as trained: this needs train_on_prompt",
                  "2 without 'sys', which 'columns' names and no row has",
                  "2 without 'tools', which 'columns' names and no row has"))
      << prepared.report.Text();
}

// In pairs and kto rows, only the last message has labels. A row whose answer is marked as not
// trained is skipped.
TEST_F(OwnDataTest, MarksOfAnswersThatAreJudged) {
  const std::string asked = R"({"m": [{"role": "user", "content": "a"}], )",
                    marked = R"({"role": "assistant", "content": "y", "loss": false})",
                    plain = R"({"role": "assistant", "content": "n"})";
  Describe(asked + "\"c\": " + marked + ", \"r\": " + plain + "}" + asked + "\"c\": " + plain +
               ", \"r\": " + plain + "}",
           R"(, "formatting": "sharegpt", "ranking": true, "columns": {"messages": "m", "chosen":
              "c", "rejected": "r"}, "tags": {"role_tag": "role", "content_tag": "content",
              "user_tag": "user", "assistant_tag": "assistant"})");
  ASSERT_OK_AND_ASSIGN(const PreparedDataset pairs, Prepare({.stage = Stage::kPairs}));
  EXPECT_EQ(pairs.examples.size(), 1);
  EXPECT_THAT(Told(pairs.report.skipped),
              ElementsAre("1 whose answer is marked (weight, loss, trainable) as not trained"));
}

// The report counts rows with reasoning or with text next to tool calls, and explains how the
// template treats them.
TEST_F(OwnDataTest, NotesOtherFieldsOfMessages) {
  Describe(Conversation(R"(, "reasoning_content": "why")", "") +
               Conversation(R"(, "tool_calls": [{"name": "f", "arguments": {"a": 1}}])", ""),
           kOpenai);
  ASSERT_OK_AND_ASSIGN(const PreparedDataset plain, Prepare({.cutoff_len = 128}));
  EXPECT_THAT(
      Told(plain.report.noted),
      ::testing::IsSupersetOf(
          {"1 with thoughts in reasoning_content, reasoning or thinking, which are omitted: the "
           "template 'chatml' has none",
           "1 with a text next to tool calls, which is trained before them (LLaMA-Factory omits "
           "it)"}));
}

// `tools` and `system` of the openai format are optional in a row. A column name that almost
// matches an existing column is reported as a mistake.
TEST_F(OwnDataTest, ColumnsThatRowsMayDoWithout) {
  Describe(R"([{"instruction": "a", "output": "b"}])",
           R"(, "columns": {"prompt": "instruction", "response": "output", "images": "pictures"})");
  EXPECT_THAT(Told(Prepare({})->report.noted),
              ElementsAre("1 without 'pictures', which 'columns' names and no row has"));
  Describe(R"({"m": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
               "tool": "[]"})",
           kOpenai);
  EXPECT_THAT(ErrorOf(), HasSubstr("no row has the key 'tools', which is to be its tools (did you "
                                   "mean 'tool'?)"));
}

TEST_F(OwnDataTest, ThreadsChangeNothing) {
  std::string rows;
  for (int row = 0; row < 700; ++row) {
    std::string words;
    for (int word = 0; word < row * 37 % 90; ++word) words += " word" + std::to_string(row + word);
    rows += json{{"instruction", words},
                 {"output", row % 11 == 3 ? json() : json(row % 7 == 0 ? "" : words)}}
                .dump() +
            "\n";
  }
  const auto write = [&](const std::string& more) {
    folder_.Write("d.jsonl", rows + more);
    folder_.Write("dataset_info.json", R"({"d": {"file_name": "d.jsonl"}})");
  };
  const std::string wrong = "{\"instruction\": [1], \"output\": \"b\"}\n";
  std::string lines, text;
  for (const int64_t threads : {1, 2, 4, 7}) {
    threads_ = threads;
    write("");
    ASSERT_OK_AND_ASSIGN(const PreparedDataset prepared, Prepare({.cutoff_len = 128}));
    if (threads == 1) lines = Lines(prepared.examples), text = prepared.report.Text();
    EXPECT_EQ(prepared.examples.size(), 636);
    EXPECT_EQ(Lines(prepared.examples), lines) << threads;
    EXPECT_EQ(prepared.report.Text(), text) << threads;
    EXPECT_EQ(prepared.report.skipped[0].first, folder_.path() + "/d.jsonl:4 (row 4)");
    write(wrong + rows + "{\"instruction\": 2, \"output\": \"b\"}\n");
    EXPECT_EQ(ErrorOf(),
              "data set 'd': d.jsonl:701 (row 701): 'instruction' must be a string, got array")
        << threads;
    write(wrong + "{");
    EXPECT_EQ(ErrorOf(),
              "data set 'd': d.jsonl:701 (row 701): 'instruction' must be a string, got array")
        << threads;
    write("{");
    EXPECT_THAT(ErrorOf(), HasSubstr("data set 'd': d.jsonl:701:2 (row 701): syntax error"))
        << threads;
  }
  threads_ = 0;
  EXPECT_EQ(ErrorOf(), "preprocessing_num_workers must be at least 1, got 0");
}

TEST_F(OwnDataTest, OverlongIsCutDroppedOrAnError) {
  Describe(R"([{"instruction": "a", "output": "b"}, )"
           R"({"instruction": "a b c d e f g h i j k l m n o p", "output": "b"}])");
  EXPECT_EQ(Prepare({.cutoff_len = 16})->examples.size(), 2);
  ASSERT_OK_AND_ASSIGN(const PreparedDataset dropped,
                       Prepare({.cutoff_len = 16, .overlong = Overlong::kDrop}));
  EXPECT_EQ(dropped.examples.size(), 1);
  EXPECT_EQ(dropped.report.skipped[0].what, "longer than cutoff_len 16");
  EXPECT_EQ(
      ErrorOf({.cutoff_len = 16, .overlong = Overlong::kError}),
      "data set 'd': d.json:1 (row 2): has 28 tokens, cutoff_len is 16, and overlong is error");
  EXPECT_OK(Prepare({.cutoff_len = 28, .overlong = Overlong::kError}));
  EXPECT_THAT(ErrorOf({.cutoff_len = 4, .overlong = Overlong::kDrop}),
              "dataset: none of 2 rows gives an example; 2 longer than cutoff_len 4, first at "
              "d.json:1 (row 1)");
  EXPECT_EQ(*ParseOverlong("drop"), Overlong::kDrop);
  EXPECT_THAT(ParseOverlong("cut"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "overlong must be truncate, drop or error, got 'cut'"));
}

// A split can be restricted to slices, in the order of the slices; num_samples and max_samples
// apply to the selected rows.
TEST_F(OwnDataTest, TakesSlicesOfTheSplit) {
  std::string rows = "[";
  for (int i = 0; i < 20; ++i)
    absl::StrAppend(&rows, i > 0 ? "," : "", R"({"instruction": "a", "output": ")", i, "\"}");
  const auto answers = [&](const std::string& more, DatasetOptions options = {}) {
    Describe(rows + "]", more);
    std::string told;
    const auto prepared = Prepare(std::move(options));
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    for (const Example& example : prepared->examples) {
      std::vector<int32_t> learnt;
      for (const int32_t label : example.documents[0].labels) {
        if (label >= 0) learnt.push_back(label);
      }
      absl::StrAppend(
          &told, absl::StripAsciiWhitespace(SmolLM2()->Decode(learnt, /*skip_special=*/true)), " ");
    }
    return told;
  };
  EXPECT_EQ(answers(R"(, "split": "train[:3]")"), "0 1 2 ");
  EXPECT_EQ(answers(R"(, "split": "train[-2:]+train[10%:20%]")"), "18 19 2 3 ");
  EXPECT_EQ(answers(R"(, "split": "train[10:]")", {.max_samples = 2}), "10 11 ");
  const std::string drawn = answers(R"(, "split": "train[17:]", "num_samples": 3)");
  EXPECT_EQ(drawn.size(), 9);
  for (const char* each : {"17 ", "18 ", "19 "}) EXPECT_THAT(drawn, HasSubstr(each));
  Describe(rows + "]", R"(, "split": "train[20:]")");
  EXPECT_EQ(ErrorOf(), "data set 'd': 'split' takes none of 20 rows");
}

TEST_F(OwnDataTest, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf(), HasSubstr("dataset_info.json: no such file"));
  Describe("[]");
  EXPECT_EQ(ErrorOf(), "data set 'd': is empty: d.json has no row");
  Describe("");
  EXPECT_EQ(ErrorOf(), "data set 'd': is empty: d.json has no row");
  Describe(
      "[{\"instruction\": \"a\",\n \"output\": \"b\"},\n {\"instruction\": \"a\" \"output\"}]");
  EXPECT_THAT(ErrorOf(), HasSubstr("data set 'd': d.json:3:29 (row 2): syntax error"));
  Describe(
      "[{\"instruction\": \"a\", \"output\": \"b\"},\n\n {\"instruction\": [\"a\"], \"output\": "
      "\"b\"}]");
  EXPECT_EQ(ErrorOf(), "data set 'd': d.json:3 (row 2): 'instruction' must be a string, got array");
  Describe("[{\"instruction\": \"a\", \"output\": null}]");
  EXPECT_EQ(ErrorOf(),
            "dataset: none of 1 rows gives an example; 1 no 'output', first at d.json:1 (row 1)");
  Describe("[{\"question\": \"a\", \"output\": \"b\"}]");
  EXPECT_THAT(ErrorOf(),
              HasSubstr("data set 'd': d.json: no row has the key 'instruction', which is to be "
                        "its prompt; rows have output, question; 'columns' in the description"));
  Describe("[{\"instruction\": \"a\", \"output\": \"b\"}]",
           R"(, "columns": {"prompt": "instruction", "response": "output", "system": "sistem"})");
  EXPECT_THAT(ErrorOf(), HasSubstr("no row has the key 'sistem', which is to be its system"));
  EXPECT_OK(Prepare({.max_samples = 1}));  // a row that was not read may have it
  Describe("[{\"instruction\": \"a\", \"output\": \"b\"}]",
           R"(, "columns": {"prompt": "instruktion", "response": "output"})");
  EXPECT_THAT(ErrorOf({.max_samples = 1}),
              HasSubstr("no row has the key 'instruktion', which is to be its prompt (did you mean "
                        "'instruction'?)"));
  Describe("[{\"instruction\": \"a\", \"output\": \"b\"}]");
  EXPECT_THAT(ErrorOf({.cutoff_len = 2}),
              "cutoff_len 2 is too small: it leaves no token to train on in any of 1 examples (the "
              "longest has 13 tokens)");
  EXPECT_EQ(ErrorOf({.cutoff_len = 0}), "cutoff_len must be at least 1, got 0");
  EXPECT_EQ(ErrorOf({.max_samples = 0}), "max_samples must be at least 1, got 0");
  EXPECT_EQ(ErrorOf({.train_on_prompt = true, .mask_history = true}),
            "train_on_prompt and mask_history exclude one another");
  const auto named = [&](std::vector<std::string> names) {
    return PrepareDataset({.names = std::move(names),
                           .dataset_dir = folder_.path(),
                           .chat_template = NamedTemplate("chatml")},
                          SmolLM2())
        .status();
  };
  EXPECT_THAT(named({}),
              StatusIs(absl::StatusCode::kInvalidArgument, "dataset: names no data set"));
  EXPECT_THAT(named({"d", "d"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "dataset: names 'd' twice"));
  EXPECT_THAT(named({"dd"}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no data set 'dd'")));
}

// kto: the mismatched answer is that of the previous row in the same batch.
TEST_F(OwnDataTest, MismatchesAnswersOfTheRowBefore) {
  Describe(R"([{"instruction": "q1", "output": "one", "t": true},
               {"instruction": "q2", "output": "two", "t": null},
               {"instruction": "q3", "output": null, "t": false},
               {"instruction": "q4", "output": "four", "t": false},
               {"instruction": "q5", "output": "", "t": true}])",
           R"(, "columns": {"prompt": "instruction", "response": "output", "kto_tag": "t"})");
  const auto answer = [&](const Document& document) {
    std::vector<int32_t> learnt;
    for (const int32_t label : document.labels) {
      if (label != kNotLearnt) learnt.push_back(label);
    }
    std::string text = SmolLM2()->Decode(learnt);
    return text.substr(0, text.find("<|im_end|>"));
  };
  ASSERT_OK_AND_ASSIGN(const PreparedDataset prepared, Prepare({.stage = Stage::kFeedback}));
  ASSERT_EQ(prepared.examples.size(), 3);
  EXPECT_EQ(answer(prepared.examples[0].documents[0]), "one");
  EXPECT_EQ(answer(prepared.examples[0].documents[1]), "");     // that of the last row
  EXPECT_EQ(answer(prepared.examples[1].documents[1]), "two");  // the third row has no answer
  EXPECT_EQ(answer(prepared.examples[2].documents[1]), "four");
  EXPECT_EQ(prepared.examples[2].desirable, true);  // although its answer is empty
  EXPECT_EQ(prepared.report.tokens, prepared.examples[0].documents[0].size() +
                                        prepared.examples[1].documents[0].size() +
                                        prepared.examples[2].documents[0].size());
  ASSERT_OK_AND_ASSIGN(const PreparedDataset pairwise,
                       Prepare({.stage = Stage::kFeedback, .preprocessing_batch_size = 2}));
  EXPECT_EQ(answer(pairwise.examples[0].documents[1]), "two");
  EXPECT_EQ(answer(pairwise.examples[1].documents[1]), "four");  // its own: no other in the batch
  EXPECT_EQ(answer(pairwise.examples[2].documents[1]), "");
  EXPECT_THAT(prepared.report.Text(),
              AllOf(HasSubstr("skipped rows, no 't': 1"), HasSubstr("skipped rows, no 'output': 1"),
                    HasSubstr("rows with an empty answer: 1;")));
  ASSERT_OK_AND_ASSIGN(const PreparedDataset one_kind,
                       Prepare({.stage = Stage::kFeedback, .max_samples = 1}));
  EXPECT_THAT(
      one_kind.report.Text(),
      HasSubstr("rows desired, and none undesired (kto needs both kinds): 1; the first is "));
}

// Stage grpo etc.: prompts, with the columns of their rows, are taken from any data set of
// conversations.
TEST_F(OwnDataTest, TakesPromptsOfAnyRowsWithTheirColumns) {
  const auto text = [](const Example& example) {
    EXPECT_EQ(example.documents.size(), 1);
    for (const int32_t label : example.documents[0].labels) EXPECT_EQ(label, kNotLearnt);
    return SmolLM2()->Decode(example.documents[0].ids);
  };
  const std::string asked = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n";
  // Rows without an answer, with one, and with a pair of answers.
  Describe(R"([{"instruction": "q", "answer": "4", "more": [1, {"a": null}]},
               {"instruction": "q", "answer": "5"}])",
           R"(, "columns": {"prompt": "instruction"})");
  ASSERT_OK_AND_ASSIGN(const PreparedDataset bare, Prepare({.stage = Stage::kPrompts}));
  ASSERT_EQ(bare.examples.size(), 2);
  EXPECT_THAT(text(bare.examples[0]), EndsWith(asked));
  EXPECT_EQ(json::parse(bare.examples[0].row),
            json::parse(R"({"instruction": "q", "answer": "4", "more": [1, {"a": null}]})"));
  EXPECT_EQ(json::parse(PreprocessedLine(bare.examples[1]))["row"]["answer"], "5");
  EXPECT_NE(DigestOf({bare.examples[0]}), DigestOf({bare.examples[1]}));
  Describe(R"([{"instruction": "q", "chosen": "yes", "rejected": "no"}])",
           R"(, "ranking": true, "columns": {"prompt": "instruction", "chosen": "chosen", )"
           R"("rejected": "rejected"})");
  ASSERT_OK_AND_ASSIGN(const PreparedDataset pairs, Prepare({.stage = Stage::kPrompts}));
  EXPECT_EQ(text(pairs.examples[0]), text(bare.examples[0]));
  const auto talk = [](const std::string& messages) { return R"([{"m": [)" + messages + "]}]"; };
  const std::string q = R"({"from": "human", "value": "q"})",
                    a = R"({"from": "gpt", "value": "a"})";
  for (const std::string& messages : {q, q + "," + a}) {
    Describe(talk(messages), R"(, "formatting": "sharegpt", "columns": {"messages": "m"})");
    ASSERT_OK_AND_ASSIGN(const PreparedDataset said, Prepare({.stage = Stage::kPrompts}));
    EXPECT_EQ(text(said.examples[0]), text(bare.examples[0]));
  }
  Describe(talk(q + "," + a + "," + q),
           R"(, "formatting": "sharegpt", "columns": {"messages": "m"})");
  ASSERT_OK_AND_ASSIGN(const PreparedDataset second, Prepare({.stage = Stage::kPrompts}));
  EXPECT_THAT(text(second.examples[0]), EndsWith("<|im_start|>assistant\na<|im_end|>\n" + asked));
  // A prompt that is too long is truncated at its beginning, or it is skipped.
  const std::vector<int32_t> whole = bare.examples[0].documents[0].ids;
  Describe(R"([{"instruction": "q"}])", R"(, "columns": {"prompt": "instruction"})");
  ASSERT_OK_AND_ASSIGN(const PreparedDataset cut,
                       Prepare({.stage = Stage::kPrompts, .cutoff_len = 5}));
  EXPECT_EQ(cut.examples[0].documents[0].ids, std::vector<int32_t>(whole.end() - 5, whole.end()));
  EXPECT_THAT(ErrorOf({.stage = Stage::kPrompts, .cutoff_len = 5, .overlong = Overlong::kDrop}),
              HasSubstr("longer than cutoff_len 5"));
}

TEST_F(OwnDataTest, ReportsPairs) {
  Describe(
      R"([{"instruction": "q", "chosen": "yes", "rejected": "no"},
               {"instruction": "q", "chosen": "same", "rejected": "same"},
               {"instruction": "q", "chosen": "", "rejected": "something else, and longer"},
               {"instruction": "q", "chosen": null, "rejected": "b"}])",
      R"(, "ranking": true, "columns": {"prompt": "instruction", "chosen": "chosen", )"
      R"("rejected": "rejected"})");
  ASSERT_OK_AND_ASSIGN(const PreparedDataset prepared, Prepare({.stage = Stage::kPairs}));
  EXPECT_EQ(prepared.examples.size(), 3);
  EXPECT_THAT(
      prepared.report.Text(),
      AllOf(HasSubstr("examples: 3 of 4 rows"), HasSubstr("skipped rows, no 'chosen': 1"),
            HasSubstr("rows with an empty answer: 1; the first is"),
            HasSubstr("rows whose chosen answer equals the rejected one: 1; the first is")));
  ASSERT_OK_AND_ASSIGN(const PreparedDataset cut,
                       Prepare({.stage = Stage::kPairs, .cutoff_len = 14}));
  EXPECT_EQ(cut.report.truncated, 1);
  // Both documents of a pair have the same truncated prompt.
  for (const Example& example : cut.examples) {
    const auto prompt = [](const Document& document) {
      return std::count(document.labels.begin(), document.labels.end(), kNotLearnt);
    };
    EXPECT_EQ(prompt(example.documents[0]), prompt(example.documents[1]));
    for (const Document& document : example.documents) EXPECT_LE(document.size(), 14);
  }
  EXPECT_EQ(ErrorOf({.stage = Stage::kPairs, .cutoff_len = 2}),
            "cutoff_len 2 is too small: it leaves no token to train on in any of 3 examples (the "
            "longest has 17 tokens)");
  EXPECT_THAT(ErrorOf(), HasSubstr("data set 'd': is a ranking data set"));
  ASSERT_OK_AND_ASSIGN(
      const PreparedDataset dropped,
      Prepare({.stage = Stage::kPairs, .cutoff_len = 14, .overlong = Overlong::kDrop}));
  EXPECT_EQ(dropped.examples.size(), 2);
}

TEST_F(OwnDataTest, PacksTextsOrCutsThem) {
  Describe(R"([{"text": "one two three"}, {"text": null}, {"text": "four five six seven"}])",
           R"(, "columns": {"prompt": "text"})");
  ASSERT_OK_AND_ASSIGN(const PreparedDataset packed,
                       Prepare({.stage = Stage::kPretraining,
                                .cutoff_len = 4}));  // 4 + 1 + 5 tokens, an eos after each text
  ASSERT_EQ(packed.examples.size(), 2);
  EXPECT_EQ(packed.report.left_over, 2);
  EXPECT_THAT(packed.report.Text(),
              AllOf(HasSubstr("tokens dropped because they fill no block of cutoff_len: 2"),
                    HasSubstr("rows with an empty text: 1;")));
  const Document& block = packed.examples[0].documents[0];
  EXPECT_EQ(block.ids.back(), SmolLM2()->eos());
  EXPECT_EQ(block.labels.back(), kNotLearnt);  // eos is also the pad token
  ASSERT_OK_AND_ASSIGN(const PreparedDataset apart,
                       Prepare({.stage = Stage::kPretraining, .cutoff_len = 4, .packing = false}));
  ASSERT_EQ(apart.examples.size(), 3);
  EXPECT_EQ(apart.report.truncated, 1);
  EXPECT_EQ(apart.examples[1].documents[0].size(), 1);
  EXPECT_EQ(apart.examples[2].documents[0].size(), 4);
  EXPECT_THAT(
      ErrorOf({.stage = Stage::kPretraining, .cutoff_len = 40}),
      "dataset: none of 3 rows gives an example; their 10 tokens fill no block of cutoff_len 40");
  EXPECT_EQ(
      ErrorOf({.stage = Stage::kPairs, .packing = true}),
      "packing is for stages pt and sft alone; here micro-batches are packed without it, exactly");
  EXPECT_EQ(ErrorOf({.stage = Stage::kPretraining, .neat_packing = true}),
            "neat_packing is for stage sft alone");
  EXPECT_EQ(ErrorOf({.stage = Stage::kPretraining, .train_on_prompt = true}),
            "train_on_prompt is for stage sft alone");
}

// If the tokenizer adds a bos, it replaces the first id of each packed block; an unpacked text
// begins with a bos.
TEST_F(OwnDataTest, PutsABosWhereTheTokenizerAddsOne) {
  const auto file = model::GgufFile::Open("external/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
  const auto files = model::TokenizerFilesFromGguf(**file);
  json config = json::parse(files->at("tokenizer_config.json"));
  config["tokenizer_class"] = "LlamaTokenizerFast";
  const auto tokenizer =
      *Tokenizer::FromJson(files->at("tokenizer.json"), config.dump(), "SmolLM2");
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_FALSE(SmolLM2()->adds_bos());
  Describe(R"([{"text": "one two three"}, {"text": "four five six seven"}])",
           R"(, "columns": {"prompt": "text"})");
  DatasetOptions options{.names = {"d"},
                         .dataset_dir = folder_.path(),
                         .stage = Stage::kPretraining,
                         .chat_template = NamedTemplate("default"),
                         .cutoff_len = 4};
  const std::vector<int32_t> second = SmolLM2()->Encode("four five six seven");
  const auto ids = [&](int64_t example) {
    return PrepareDataset(options, tokenizer)->examples[example].documents[0].ids;
  };
  EXPECT_EQ(ids(1), (std::vector<int32_t>{*tokenizer->bos(), second[1], second[2], second[3]}));
  options.packing = false;
  EXPECT_EQ(ids(1), (std::vector<int32_t>{*tokenizer->bos(), second[0], second[1], second[2]}));
}

TEST_F(OwnDataTest, DigestsAreOfIdsLabelsAndTags) {
  const std::vector<Example> one = {{.documents = {{{1, 2}, {-100, 2}}}}};
  const std::string digest = DigestOf(one);
  EXPECT_EQ(digest.size(), 40);
  EXPECT_EQ(digest.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(DigestOf({{.documents = {{{1, 2}, {-100, 2}}}}}), digest);
  const std::vector<std::vector<Example>> others = {
      {},
      {{.documents = {{{1, 2}, {1, 2}}}}},
      {{.documents = {{{1, 3}, {-100, 2}}}}},
      {{.documents = {{{1, 2}, {-100, 2}}}, .desirable = true}},
      {{.documents = {{{1, 2}, {-100, 2}}}, .desirable = false}},
      {{.documents = {{{1}, {-100}}, {{2}, {2}}}}},
      {{.documents = {{{1}, {-100}}}}, {.documents = {{{2}, {2}}}}},
      {one[0], one[0]}};
  std::set<std::string> all = {digest};
  for (const std::vector<Example>& other : others) all.insert(DigestOf(other));
  EXPECT_EQ(all.size(), others.size() + 1);
}

TEST_F(OwnDataTest, WritesWholeFilesOrNone) {
  const std::string path = folder_ / "out.jsonl";
  ASSERT_OK(WritePreprocessed(
      path, {{.documents = {{{1, 4093, 198}, {-100, -100, 198}}}}, {.documents = {{{7}, {7}}}}}));
  EXPECT_EQ(testing::ReadAll(path),
            "{\"input_ids\": [1, 4093, 198], \"labels\": [-100, -100, 198]}\n{\"input_ids\": [7], "
            "\"labels\": [7]}\n");
  ASSERT_OK(WritePreprocessed(path, {{.documents = {{{1, 2}, {-100, 2}}, {{1}, {1}}}}}));
  EXPECT_EQ(testing::ReadAll(path),
            "{\"chosen_input_ids\": [1, 2], \"chosen_labels\": [-100, 2], \"rejected_input_ids\": "
            "[1], \"rejected_labels\": [1]}\n");
  ASSERT_OK(WritePreprocessed(
      path, {{.documents = {{{1, 2}, {-100, 2}}, {{1}, {1}}}, .desirable = false}}));
  EXPECT_EQ(testing::ReadAll(path),
            "{\"input_ids\": [1, 2], \"labels\": [-100, 2], \"kl_input_ids\": [1], \"kl_labels\": "
            "[1], \"kto_tag\": false}\n");
  ASSERT_OK(WritePreprocessed(path, {}));
  EXPECT_EQ(testing::ReadAll(path), "");
  EXPECT_THAT(WritePreprocessed(folder_ / "none/out.jsonl", {}),
              StatusIs(absl::StatusCode::kNotFound,
                       EndsWith("none/out.jsonl: cannot be written: No such file or directory")));
  EXPECT_THAT(WritePreprocessed("/dev/full/x", {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cannot be written")));
}

}  // namespace
}  // namespace moonring::data
