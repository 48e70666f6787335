// Descriptions of data sets: special cases and errors; and the rows of the alpaca format.
#include "data/description/dataset_info.h"
#include "data/formats/format_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats/alpaca.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<DatasetDescription>> ReadInfo(const ScratchFolder& folder,
                                                         const std::string& info,
                                                         std::vector<std::string> names = {"d"}) {
  folder.Write("dataset_info.json", info);
  return ReadDatasetInfo(folder.path(), names, RowFormatNames());
}

// Returns the error of a dataset_info.json with one description.
absl::Status ErrorOf(const std::string& description) {
  ScratchFolder folder;
  folder.Write("d.json", "[]");
  return ReadInfo(folder, "{\"d\": " + description + "}").status();
}

TEST(DatasetInfoTest, DefaultsHoldOnlyWithoutColumnsAndTags) {
  ScratchFolder folder;
  const std::string file = folder.Write("d.json", "[]");
  ASSERT_OK_AND_ASSIGN(const auto d,
                       ReadInfo(folder,
                                R"({"plain": {"file_name": "d.json"},
      "some": {"file_name": "d.json", "columns": {"prompt": "q", "system": "s"}, )"
                                R"("tags": {"role_tag": "role"}},
      "null": {"file_name": "d.json", "columns": {"prompt": "q", "query": null, "response": ""}},
      "none": {"file_name": "d.json", "formatting": "sharegpt", "ranking": true, "columns": {}, )"
                                R"("tags": {}, "subset": "x", "split": "train", "author": "me"}})",
                                {"none", "plain", "some", "null"}));
  ASSERT_EQ(d.size(), 4);
  EXPECT_EQ(d[0].name, "none");
  EXPECT_EQ(d[0].formatting, "sharegpt");
  EXPECT_TRUE(d[0].ranking && d[0].columns.named);
  for (const Column& column : {d[0].columns.prompt, d[0].columns.query, d[0].columns.response,
                               d[0].columns.messages, d[0].tags.role_tag, d[0].tags.user_tag})
    EXPECT_EQ(column, std::nullopt);
  EXPECT_THAT(d[1].files, ElementsAre(file));
  EXPECT_EQ(d[1].formatting, "alpaca");
  EXPECT_FALSE(d[1].ranking || d[1].columns.named);
  EXPECT_EQ(d[1].columns.prompt, "instruction");
  EXPECT_EQ(d[1].columns.query, "input");
  EXPECT_EQ(d[1].columns.response, "output");
  EXPECT_EQ(d[1].columns.messages, "conversations");
  for (const Column& column : {d[1].columns.history, d[1].columns.system, d[1].columns.tools,
                               d[1].columns.chosen, d[1].columns.kto_tag})
    EXPECT_EQ(column, std::nullopt);
  EXPECT_EQ(d[1].tags.role_tag, "from");
  EXPECT_EQ(d[1].tags.function_tag, "function_call");
  EXPECT_EQ(d[2].columns.prompt, "q");
  EXPECT_EQ(d[2].columns.system, "s");
  EXPECT_EQ(d[2].columns.response, std::nullopt);
  EXPECT_EQ(d[2].tags.role_tag, "role");
  EXPECT_EQ(d[2].tags.content_tag, std::nullopt);
  EXPECT_EQ(d[3].columns.query, std::nullopt);
  EXPECT_EQ(d[3].columns.response, std::nullopt);
}

TEST(DatasetInfoTest, AFolderStandsForItsFilesInOrder) {
  ScratchFolder folder;
  for (const char* name : {"part/b.jsonl", "part/a.json", "part/.hidden", "part/c.json",
                           "bad/a.json", "bad/b.csv", "bad/sub/c.json"})
    folder.Write(name, "[]");
  std::filesystem::create_directories(folder / "empty");
  ASSERT_OK_AND_ASSIGN(const auto d, ReadInfo(folder, R"({"d": {"file_name": "part"}})"));
  EXPECT_THAT(d[0].files,
              ElementsAre(folder / "part/a.json", folder / "part/b.jsonl", folder / "part/c.json"));
  EXPECT_THAT(ReadInfo(folder, R"({"d": {"file_name": "bad"}})"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("bad/b.csv: of another kind than " + folder / "bad/a.json")));
  for (const char* name : {"a.csv", "b.csv.gz", "c.csv.zst"})
    folder.Write(std::string("csv/") + name, "");
  EXPECT_EQ(ReadInfo(folder, R"({"d": {"file_name": "csv"}})")->front().files.size(), 3);
  for (const char* name : {"a.txt", "a.parquet", "a.arrow", "a.jsonl.gz"}) {
    folder.Write(name, "");
    EXPECT_OK(ReadInfo(folder, std::string(R"({"d": {"file_name": ")") + name + "\"}}"));
  }
  folder.Write("a.xlsx", "");
  EXPECT_THAT(ReadInfo(folder, R"({"d": {"file_name": "a.xlsx"}})"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a.xlsx: of unknown kind '.xlsx'; .json, .jsonl, .csv and .txt")));
  EXPECT_THAT(ReadInfo(folder, R"({"d": {"file_name": "empty"}})"),
              StatusIs(absl::StatusCode::kNotFound, EndsWith("empty: the folder holds no file")));
}

// Descriptions from a hub are untrusted: they cannot name files outside of the checkout.
TEST(DatasetInfoTest, ACheckoutReadsNothingOutsideOfIt) {
  ScratchFolder folder;
  folder.Write("secret.json", "[]");
  folder.Write("cache/blobs/etag", "[]");
  const std::filesystem::path checkout =
      std::filesystem::path(folder.path()) / "cache/checkouts/commit";
  std::filesystem::create_directories(checkout / "rows");
  std::filesystem::create_symlink("../../blobs/etag", checkout / "in.json");
  std::filesystem::create_symlink("../../../secret.json", checkout / "out.json");
  std::filesystem::create_symlink("../../../../secret.json", checkout / "rows/out.json");
  folder.Write("cache/checkouts/commit/dataset_info.json", R"({
      "in": {"file_name": "in.json"}, "up": {"file_name": "../../../secret.json"},
      "away": {"file_name": ")" + folder.path() + R"(/secret.json"},
      "nul": {"file_name": "in.json\u0000"}, "out": {"file_name": "out.json"},
      "rows": {"file_name": "rows"}, "itself": {"file_name": "."}})");
  const auto read = [&](const std::string& name, bool is_checkout) {
    return ReadDatasetInfo(checkout.string(), std::vector<std::string>{name}, RowFormatNames(), {},
                           is_checkout)
        .status();
  };
  EXPECT_THAT(read("in", true), testing::IsOk());
  for (const char* name : {"up", "away", "nul", "itself"})
    EXPECT_THAT(read(name, true),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("file_name: '")));
  for (const char* name : {"out", "rows"})
    EXPECT_THAT(read(name, true),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("leads out of")));
  for (const char* name : {"up", "away", "out", "rows"})  // a user's may name any file
    EXPECT_THAT(read(name, false), testing::IsOk()) << name;
  EXPECT_FALSE(read("nul", false).ok());
}

TEST(DatasetInfoTest, ReadsNumSamples) {
  ScratchFolder folder;
  folder.Write("d.json", "[]");
  ASSERT_OK_AND_ASSIGN(
      const auto d,
      ReadInfo(folder,
               R"({"a": {"file_name": "d.json", "num_samples": 12}, "b": {"file_name": "d.json", )"
               R"("num_samples": null}})",
               {"a", "b"}));
  EXPECT_EQ(d[0].num_samples, 12);
  EXPECT_EQ(d[1].num_samples, std::nullopt);
}

TEST(DatasetInfoTest, NamesWhatIsWrongWithTheFile) {
  ScratchFolder folder;
  EXPECT_THAT(
      ReadDatasetInfo(folder.path(), {}, RowFormatNames()),
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("dataset_info.json: no such file"), HasSubstr("dataset_dir"))));
  EXPECT_THAT(ReadInfo(folder, "{\n \"a\": {},\n \"b\" {}\n}"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dataset_info.json:3:6: syntax error")));
  EXPECT_THAT(ReadInfo(folder, "["),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dataset_info.json:1:2: ")));
  EXPECT_THAT(
      ReadInfo(folder, "[]"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("dataset_info.json: expected an object of data sets by name, got array")));
  EXPECT_THAT(ReadInfo(folder, R"({"alpaca_en": {}, "identity": {}})", {"alpaca_em"}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("no data set 'alpaca_em' (did you mean 'alpaca_en'?)"),
                             HasSubstr("there are alpaca_en, identity"))));
  // Fails unless lua/moonring/data/hub_datasets.lua has downloaded the data set before.
  EXPECT_THAT(ReadDatasetInfo("REMOTE:me/data", {}, RowFormatNames()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dataset_dir REMOTE:me/data is on a hub: download it first")));
}

TEST(DatasetInfoTest, NamesWhatIsWrongWithADescription) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(
      ErrorOf("3"),
      StatusIs(invalid,
               EndsWith("dataset_info.json: data set 'd': expected an object, got number")));
  EXPECT_THAT(ErrorOf("{}"), StatusIs(invalid, EndsWith("data set 'd': has no 'file_name'")));
  EXPECT_THAT(ErrorOf(R"({"file_name": 3})"),
              StatusIs(invalid, HasSubstr("'file_name' must be a string, got number")));
  EXPECT_THAT(ErrorOf(R"({"file_name": "e.json"})"),
              StatusIs(absl::StatusCode::kNotFound, EndsWith("e.json: no such file")));
  EXPECT_THAT(
      ErrorOf(R"({"hf_hub_url": "a/b", "file_name": "d.json"})"),
      StatusIs(invalid, HasSubstr("'hf_hub_url' \"a/b\" is on the network: download it first")));
  EXPECT_THAT(ErrorOf(R"({"ms_hub_url": "a/b"})"),
              StatusIs(invalid, HasSubstr("download it first")));
  EXPECT_THAT(ErrorOf(R"({"cloud_file_name": "s3://a"})"),
              StatusIs(invalid, HasSubstr("download it first")));
  EXPECT_THAT(
      ErrorOf(R"({"script_url": "a", "cloud_file_name": "b", "file_name": "d.json"})"),
      StatusIs(
          invalid,
          HasSubstr("'script_url' \"a\" is a program, and programs of a data set are not run")));
  EXPECT_THAT(ErrorOf(R"({"om_hub_url": "a/b", "script_url": "a", "file_name": "d.json"})"),
              StatusIs(invalid, HasSubstr("(which wins over 'file_name'")));
  for (const char* number : {"0", "-3", "2.5", "\"7\"", "4294967296"}) {
    EXPECT_THAT(
        ErrorOf(std::string(R"({"file_name": "d.json", "num_samples": )") + number + "}"),
        StatusIs(invalid,
                 HasSubstr(std::string("'num_samples' must be a number of rows, 1 to 2^31, got ") +
                           number)));
  }
  EXPECT_THAT(ErrorOf(R"({"file_name": "d.json", "split": "test"})"),
              StatusIs(invalid, HasSubstr("a local file has the split train alone, not \"test\"")));
  EXPECT_THAT(
      ErrorOf(R"({"file_name": "d.json", "split": "train[:3"})"),
      StatusIs(invalid, HasSubstr("'split' is \"train[:3\": expected train, train[:100], ")));
  EXPECT_THAT(ErrorOf(R"({"file_name": "d.json", "split": 3})"),
              StatusIs(invalid, HasSubstr("'split' must be a string, got number")));
  EXPECT_THAT(
      ErrorOf(R"({"file_name": "d.json", "formatting": "sharegbt"})"),
      StatusIs(invalid,
               HasSubstr("expected one of alpaca, sharegpt, openai (did you mean 'sharegpt'?)")));
  EXPECT_THAT(ErrorOf(R"({"file_name": "d.json", "ranking": "yes"})"),
              StatusIs(invalid, HasSubstr("'ranking' must be true or false, got \"yes\"")));
  EXPECT_THAT(ErrorOf(R"({"file_name": "d.json", "colums": {}})"),
              StatusIs(invalid, HasSubstr("unknown key 'colums' (did you mean 'columns'?)")));
  EXPECT_THAT(ErrorOf(R"({"file_name": "d.json", "columns": []})"),
              StatusIs(invalid, HasSubstr("columns: expected an object of names, got array")));
  EXPECT_THAT(ErrorOf(R"({"file_name": "d.json", "columns": {"prompt": 3}})"),
              StatusIs(invalid, HasSubstr("columns: 'prompt' must be a string, got number")));
  EXPECT_THAT(
      ErrorOf(R"({"file_name": "d.json", "columns": {"promt": "x"}})"),
      StatusIs(invalid, HasSubstr("columns: unknown key 'promt' (did you mean 'prompt'?)")));
  EXPECT_THAT(
      ErrorOf(R"({"file_name": "d.json", "tags": {"user_tga": "x"}})"),
      StatusIs(invalid, HasSubstr("tags: unknown key 'user_tga' (did you mean 'user_tag'?)")));
}

// Returns the messages as text, each as role:content.
std::string Messages(const absl::StatusOr<ConvertedRow>& row) {
  if (!row.ok()) return row.status().ToString();
  std::string text;
  for (const Message& message : row->conversation.messages)
    text += (message.role == Role::kUser ? "u:" : "a:") + message.content + "|";
  return text;
}

TEST(AlpacaTest, MakesConversations) {
  const auto convert = [](const char* json, const Columns& columns = {}) {
    return ConvertAlpaca(nlohmann::json::parse(json), {.columns = columns}, Stage::kSupervised);
  };
  EXPECT_EQ(Messages(convert(R"({"instruction": "do", "input": "this", "output": "done"})")),
            "u:do\nthis|a:done|");
  EXPECT_EQ(Messages(convert(R"({"instruction": "do", "input": "", "output": ""})")), "u:do|a:|");
  EXPECT_EQ(Messages(convert(R"({"instruction": "", "input": "this", "output": "x"})")),
            "u:this|a:x|");
  EXPECT_EQ(Messages(convert(R"({"output": "x", "history": [["not", "mapped"]]})")), "u:|a:x|");
  const Columns columns{.named = true,
                        .prompt = "q",
                        .query = std::nullopt,
                        .response = "r",
                        .history = "h",
                        .system = "s"};
  const auto row = convert(
      R"({"q": "and?", "input": "unread", "r": "so", "h": [["a", "b"], ["c", ""]], "s": "be"})",
      columns);
  EXPECT_EQ(Messages(row), "u:a|a:b|u:c|a:|u:and?|a:so|");
  EXPECT_EQ(row->conversation.system, "be");
  EXPECT_EQ(row->skipped, "");
  EXPECT_EQ(Messages(convert(R"({"q": null, "r": "so", "h": null, "s": null})", columns)),
            "u:|a:so|");
  EXPECT_EQ(convert(R"({"q": "a", "r": null})", columns)->skipped, "no 'r'");
  EXPECT_EQ(convert(R"({"q": "a"})", columns)->skipped, "no 'r'");
}

TEST(AlpacaTest, NamesTheKeyOfAWrongType) {
  const Columns columns{.history = "history", .system = "system"};
  const auto error = [&](const char* json) {
    return std::string(
        ConvertAlpaca(nlohmann::json::parse(json), {.columns = columns}, Stage::kSupervised)
            .status()
            .message());
  };
  EXPECT_EQ(error("[1]"), "a row must be an object, got array");
  EXPECT_EQ(error(R"({"instruction": 3, "output": ""})"),
            "'instruction' must be a string, got number");
  EXPECT_EQ(error(R"({"input": ["x"], "output": ""})"), "'input' must be a string, got array");
  EXPECT_EQ(error(R"({"output": {"text": ""}})"), "'output' must be a string, got object");
  EXPECT_EQ(error(R"({"output": "", "system": false})"), "'system' must be a string, got boolean");
  EXPECT_EQ(error(R"({"output": "", "history": "x"})"),
            "'history' must be an array of [prompt, response] pairs, got string");
  for (const char* pair :
       {R"("x")", "[]", R"(["a"])", R"(["a", "b", "c"])", R"(["a", null])", R"({"a": "b"})"}) {
    EXPECT_EQ(
        error((std::string(R"({"output": "", "history": [["a", "b"], )") + pair + "]}").c_str()),
        "'history'[1] must be a pair of strings [prompt, response]")
        << pair;
  }
}

}  // namespace
}  // namespace moonring::data
