// Rows of arrays and of lines, their places, bad files, and resuming in the middle.
#include "data/json_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/temporary_folder.h"

namespace moonring::data {
namespace {

using ::moonring::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// All rows as their JSON text; then the error's message, where there is one.
std::vector<std::string> ReadAll(std::vector<std::string> files) {
  absl::StatusOr<std::unique_ptr<JsonSource>> source = JsonSource::Open(std::move(files));
  if (!source.ok()) return {std::string(source.status().message())};
  std::vector<std::string> rows;
  while (true) {
    absl::StatusOr<std::optional<Row>> row = (*source)->Next();
    if (!row.ok()) {
      rows.emplace_back(row.status().message());
      return rows;
    }
    if (!row->has_value()) return rows;
    rows.push_back((*row)->value.dump());
  }
}

// The error that a file of this text ends in.
std::string ErrorOf(const std::string& text, const std::string& name = "bad.json") {
  TemporaryFolder folder;
  const std::vector<std::string> rows = ReadAll({folder.Write(name, text)});
  return rows.empty() ? "no row, no error" : rows.back();
}

TEST(JsonSourceTest, ReadsArraysAndLines) {
  TemporaryFolder folder;
  EXPECT_THAT(ReadAll({folder.Write("a.json", "\n [ {\"a\": [1, {\"b\": \"]},{\"}]} ,\n{} , \"x,]\" , 3,null]\n\n")}),
              ElementsAre(R"({"a":[1,{"b":"]},{"}]})", "{}", R"("x,]")", "3", "null"));
  EXPECT_THAT(ReadAll({folder.Write("b.jsonl", "{\"a\": 1}\r\n\n  {\"a\": \"\\\"}\\\\\"} \n{\"a\":3}")}),
              ElementsAre(R"({"a":1})", R"({"a":"\"}\\"})", R"({"a":3})"));
  EXPECT_THAT(ReadAll({folder.Write("c.json", "{\"lines\": 1}\n{\"lines\": 2}\n")}), ElementsAre(R"({"lines":1})", R"({"lines":2})"));
  EXPECT_THAT(ReadAll({folder.Write("d.jsonl", "[{\"array\": 1}]")}), ElementsAre(R"({"array":1})"));
  EXPECT_THAT(ReadAll({folder.Write("e.json", "\xEF\xBB\xBF[1]")}), ElementsAre("1"));
  EXPECT_THAT(ReadAll({folder.Write("f.json", "[]")}), ElementsAre());
  EXPECT_THAT(ReadAll({folder.Write("g.jsonl", "")}), ElementsAre());
  EXPECT_THAT(ReadAll({folder.Path("a.json"), folder.Path("f.json"), folder.Path("d.jsonl")}).size(), 6);
  EXPECT_THAT(ReadAll({}), ElementsAre());
}

TEST(JsonSourceTest, SaysWhereARowIs) {
  TemporaryFolder folder;
  const std::string file = folder.Write("a.json", "[\n {\"a\": 1},\n {\"a\":\n 2},\n\n {}]");
  auto source = JsonSource::Open({file});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<std::string> where;
  for (int i = 0; i < 3; ++i) where.push_back(Where(**(*source)->Next()).substr(file.size()));
  EXPECT_THAT(where, ElementsAre(":2 (row 1)", ":3 (row 2)", ":6 (row 3)"));
}

TEST(JsonSourceTest, NamesLineAndColumnOfAFault) {
  EXPECT_THAT(ErrorOf("[\n {\"a\": 1},\n {\"a\": tru}\n]"), HasSubstr("bad.json:3:11: syntax error while parsing value - invalid literal"));
  EXPECT_THAT(ErrorOf("[{\"a\" 1}]"), HasSubstr("bad.json:1:7: "));
  EXPECT_THAT(ErrorOf("[{\"é\": 1},\n{\"ü\": \"é\" 1}]"), HasSubstr("bad.json:2:11: "));
  EXPECT_THAT(ErrorOf("[{\"a\": 1} {\"a\": 2}]"), EndsWith("bad.json:1:11: expected ',' or ']' after an element of the array"));
  EXPECT_THAT(ErrorOf("[{\"a\": 1},]"), EndsWith("bad.json:1:11: expected another element after ','"));
  EXPECT_THAT(ErrorOf("[{\"a\": 1}]]"), EndsWith("bad.json:1:11: more text after the end of the array"));
  EXPECT_THAT(ErrorOf("[,]"), HasSubstr("bad.json:1:2: "));
  EXPECT_THAT(ErrorOf("[}"), HasSubstr("bad.json:1:2: "));
  EXPECT_THAT(ErrorOf("[{\"a\": 1}"), EndsWith("bad.json:1:10: the file ends inside the array: it is cut off, or lacks a ']'"));
  EXPECT_THAT(ErrorOf("["), EndsWith("the file ends inside the array: it is cut off, or lacks a ']'"));
  EXPECT_THAT(ErrorOf("[{\"a\": \"cut o"), AllOf(HasSubstr("bad.json:1:14: "), EndsWith("(the file ends here)")));
  EXPECT_THAT(ErrorOf("[{\"a\": \"quote missing},\n{\"a\": 2}]"), HasSubstr("bad.json:1:24: "));
  EXPECT_THAT(ErrorOf("[{\"a\": \"\xff\"}]"), HasSubstr("bad.json:1:9: "));
  EXPECT_THAT(ErrorOf("{\"a\": 1}\n{\"a\": 1\n{\"a\": 3}\n", "bad.jsonl"), AllOf(HasSubstr("bad.jsonl:2:8: "), HasSubstr("one whole JSON value a line")));
  EXPECT_THAT(ErrorOf("{\"a\": 1}\n{\"a\": 1}}\n", "bad.jsonl"), HasSubstr("bad.jsonl:2:9: "));
  EXPECT_THAT(ErrorOf("{\n \"data\": []\n}"), AllOf(HasSubstr("bad.json:1:2: "), HasSubstr("one whole JSON value a line")));
  TemporaryFolder folder;
  EXPECT_THAT(ReadAll({folder.Path("none.json")}), ElementsAre(EndsWith("none.json: cannot be opened: No such file or directory")));
  EXPECT_THAT(ReadAll({folder.path()}), ElementsAre(HasSubstr("cannot be read: Is a directory")));
}

TEST(JsonSourceTest, ReadsRowsLongerThanItsBuffer) {
  TemporaryFolder folder;
  const std::string text(700'000, 'x');
  const std::string row = "{\"a\": \"" + text + "\"}";
  std::string array = "[", lines;
  for (int i = 0; i < 3; ++i) {
    array += (i > 0 ? ",\n" : "") + row;
    lines += row + "\n";
  }
  EXPECT_THAT(ReadAll({folder.Write("a.json", array + "]"), folder.Write("a.jsonl", lines)}).size(), 6);
  EXPECT_THAT(ReadAll({folder.Write("b.json", array + "!")}).back(), HasSubstr("b.json:3:700010: expected ',' or ']'"));
}

// From every place, in arrays and lines and across files, the rest is the same, errors' places included.
TEST(JsonSourceTest, ResumesAnywhere) {
  TemporaryFolder folder;
  const std::vector<std::string> files = {folder.Write("a.json", "[1, {\"a\": 2},\n\n 3\n]"), folder.Write("b.jsonl", "4\n\n5\n"), folder.Write("c.json", "[]"),
                                          folder.Write("d.json", "[6,\n7,\n x]")};
  auto source = JsonSource::Open(files);
  ASSERT_TRUE(source.ok());
  std::vector<std::string> states;
  std::vector<std::string> rest;  // [i]: what comes after states[i]
  for (int i = 0; i <= 7; ++i) {
    states.push_back((*source)->SaveState());
    const auto row = (*source)->Next();
    rest.push_back(row.ok() ? Where(**row) + (*row)->value.dump() : std::string(row.status().message()));
  }
  EXPECT_THAT(rest.back(), HasSubstr("d.json:3:2: "));
  for (size_t begin = 0; begin < states.size(); ++begin) {
    auto resumed = JsonSource::Open(files);
    ASSERT_TRUE((*resumed)->LoadState(states[begin]).ok());
    for (size_t i = begin; i < rest.size(); ++i) {
      const auto row = (*resumed)->Next();
      EXPECT_EQ(row.ok() ? Where(**row) + (*row)->value.dump() : std::string(row.status().message()), rest[i]) << begin;
    }
  }
  auto ended = JsonSource::Open({files[0]});
  while ((*ended)->Next()->has_value()) {
  }
  auto again = JsonSource::Open({files[0]});
  ASSERT_TRUE((*again)->LoadState((*ended)->SaveState()).ok());
  EXPECT_FALSE((*again)->Next()->has_value());
}

TEST(JsonSourceTest, RefusesStatesThatAreNotItsOwn) {
  TemporaryFolder folder;
  const std::string file = folder.Write("a.json", "[1, 2, 3, 4, 5]");
  auto source = JsonSource::Open({file});
  auto other = JsonSource::Open({folder.Write("b.json", "[1]")});
  EXPECT_THAT((*source)->LoadState((*other)->SaveState()).message(), HasSubstr("the state was saved for"));
  for (const char* bad : {"", "{", "[]", "3", "{\"stage\": 3}", "{\"stage\": \"step_batches\"}", "{\"stage\": \"json_source\"}"}) {
    EXPECT_THAT((*source)->LoadState(bad).message(), HasSubstr("not a state that a json source saved")) << bad;
  }
  std::string state = (*source)->SaveState();
  state.replace(state.find("[1,1,2,0,0]"), 11, "[1,1,2,0]");
  EXPECT_THAT((*source)->LoadState(state).message(), HasSubstr("broken"));
  (*source)->Next().IgnoreError();
  (*source)->Next().IgnoreError();
  folder.Write("a.json", "[1");
  auto shorter = JsonSource::Open({file});
  EXPECT_THAT((*shorter)->LoadState((*source)->SaveState()).message(), HasSubstr("is shorter than when the state was saved"));
}

}  // namespace
}  // namespace moonring::data
