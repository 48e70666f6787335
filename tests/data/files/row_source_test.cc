// Reading rows: the rows of every kind of file equal those of the datasets library
// (tests/golden/files); positions, invalid files, and resuming in the middle.
#include "data/files/row_source.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/text/ordered_json.h"
#include "data/text/json/python_json.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/scratch_folder.h"

namespace moonring::data {
namespace {

using ::moonring::testing::ReadRunfile;
using ::moonring::testing::ScratchFolder;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// Returns all rows as JSON texts, followed by the error message if there is an error.
std::vector<std::string> ReadAll(std::vector<std::string> files) {
  absl::StatusOr<std::unique_ptr<RowSource>> source = RowSource::Open(std::move(files));
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

// Returns the error at the end of a file with this text.
std::string ErrorOf(const std::string& text, const std::string& name = "bad.json") {
  ScratchFolder folder;
  const std::vector<std::string> rows = ReadAll({folder.Write(name, text)});
  return rows.empty() ? "no row, no error" : rows.back();
}

TEST(RowSourceTest, ReadsArraysAndLines) {
  ScratchFolder folder;
  EXPECT_THAT(ReadAll({folder.Write(
                  "a.json", "\n [ {\"a\": [1, {\"b\": \"]},{\"}]} ,\n{} , \"x,]\" , 3,null]\n\n")}),
              ElementsAre(R"({"a":[1,{"b":"]},{"}]})", "{}", R"("x,]")", "3", "null"));
  EXPECT_THAT(
      ReadAll({folder.Write("b.jsonl", "{\"a\": 1}\r\n\n  {\"a\": \"\\\"}\\\\\"} \n{\"a\":3}")}),
      ElementsAre(R"({"a":1})", R"({"a":"\"}\\"})", R"({"a":3})"));
  EXPECT_THAT(ReadAll({folder.Write("c.json", "{\"lines\": 1}\n{\"lines\": 2}\n")}),
              ElementsAre(R"({"lines":1})", R"({"lines":2})"));
  EXPECT_THAT(ReadAll({folder.Write("d.jsonl", "[{\"array\": 1}]")}),
              ElementsAre(R"({"array":1})"));
  EXPECT_THAT(ReadAll({folder.Write("e.json", "\xEF\xBB\xBF[1]")}), ElementsAre("1"));
  EXPECT_THAT(ReadAll({folder.Write("h.json", "{\n \"a\": [\n  1\n ]\n}\n{\n\"a\"\n:\n{}}\n\n")}),
              ElementsAre(R"({"a":[1]})", R"({"a":{}})"));
  EXPECT_THAT(ReadAll({folder.Write("i.jsonl", "{\"a\":1}{\"a\":\"}{\"} {\"a\":3}\r\n{\"a\":4}")}),
              ElementsAre(R"({"a":1})", R"({"a":"}{"})", R"({"a":3})", R"({"a":4})"));
  EXPECT_THAT(ReadAll({folder.Write("j.json", "[1, 2]\n[]\n[3]")}), ElementsAre("1", "2", "3"));
  EXPECT_THAT(ReadAll({folder.Write("k.jsonl", "1 true\n\"x\"null 2.5{}[1]")}),
              ElementsAre("1", "true", R"("x")", "null", "2.5", "{}", "[1]"));
  EXPECT_THAT(ReadAll({folder.Write("l.jsonl", "\xEF\xBB\xBF{\"a\":1}\n\xEF\xBB\xBF{\"a\":2}")}),
              ElementsAre(R"({"a":1})", R"({"a":2})"));
  EXPECT_THAT(ReadAll({folder.Write("f.json", "[]")}), ElementsAre());
  EXPECT_THAT(ReadAll({folder.Write("g.jsonl", "")}), ElementsAre());
  EXPECT_THAT(ReadAll({folder / "a.json", folder / "f.json", folder / "d.jsonl"}).size(), 6);
  EXPECT_THAT(ReadAll({}), ElementsAre());
}

TEST(RowSourceTest, SaysWhereARowIs) {
  ScratchFolder folder;
  const std::string file = folder.Write("a.json", "[\n {\"a\": 1},\n {\"a\":\n 2},\n\n {}]");
  auto source = RowSource::Open({file});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<std::string> where;
  for (int i = 0; i < 3; ++i) where.push_back(Where(**(*source)->Next()).substr(file.size()));
  EXPECT_THAT(where, ElementsAre(":2 (row 1)", ":3 (row 2)", ":6 (row 3)"));
}

TEST(RowSourceTest, NamesLineAndColumnOfAFault) {
  EXPECT_THAT(
      ErrorOf("[\n {\"a\": 1},\n {\"a\": tru}\n]"),
      HasSubstr("bad.json:3:11 (row 2): syntax error while parsing value - invalid literal"));
  EXPECT_THAT(ErrorOf("[{\"a\" 1}]"), HasSubstr("bad.json:1:7 (row 1): "));
  EXPECT_THAT(ErrorOf("[{\"é\": 1},\n{\"ü\": \"é\" 1}]"), HasSubstr("bad.json:2:11 (row 2): "));
  EXPECT_THAT(ErrorOf("[{\"a\": 1} {\"a\": 2}]"),
              EndsWith("bad.json:1:11 (row 2): expected ',' or ']' after an element of the array"));
  EXPECT_THAT(ErrorOf("[{\"a\": 1},]"),
              EndsWith("bad.json:1:11 (row 2): expected another element after ','"));
  EXPECT_THAT(ErrorOf("[{\"a\": 1}]]"),
              EndsWith("bad.json:1:11 (row 2): more text after the end of the array"));
  EXPECT_THAT(ErrorOf("[,]"), HasSubstr("bad.json:1:2 (row 1): "));
  EXPECT_THAT(ErrorOf("[}"), HasSubstr("bad.json:1:2 (row 1): "));
  EXPECT_THAT(
      ErrorOf("[{\"a\": 1}"),
      EndsWith(
          "bad.json:1:10 (row 2): the file ends inside the array: it is cut off, or lacks a ']'"));
  EXPECT_THAT(ErrorOf("["),
              EndsWith("the file ends inside the array: it is cut off, or lacks a ']'"));
  EXPECT_THAT(ErrorOf("[{\"a\": \"cut o"),
              AllOf(HasSubstr("bad.json:1:14 (row 1): "), EndsWith("(the file ends here)")));
  EXPECT_THAT(ErrorOf("[{\"a\": \"quote missing},\n{\"a\": 2}]"),
              HasSubstr("bad.json:1:24 (row 1): "));
  EXPECT_THAT(ErrorOf("[{\"a\": \"\xff\"}]"), HasSubstr("bad.json:1:9 (row 1): "));
  // A missing bracket is reported where the next value begins, however long the file is.
  const std::string more = "{\"a\": [3]}\n{\"a\": 4}\n";
  for (const char* line : {"{\"a\": 1", "{\"a\": [1", "{\"a\": [1, 2", "{\"a\": {\"b\": 1}"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("{\"a\": 1}\n", line, "\n", more), "bad.jsonl"),
                AllOf(HasSubstr("bad.jsonl:3:1 (row 2): syntax error while parsing "),
                      HasSubstr("; expected "),
                      EndsWith(" (the value begins in line 2: is something not closed there?)")))
        << line;
  }
  EXPECT_THAT(ErrorOf("{\"a\": 1,\n" + more, "bad.jsonl"),
              HasSubstr("bad.jsonl:2:1 (row 1): syntax error while parsing object key"));
  EXPECT_THAT(ErrorOf("{\"a\":\n" + more, "bad.jsonl"), HasSubstr("bad.jsonl:3:1 (row 1): "));
  EXPECT_THAT(ErrorOf("{\"a\": \"x\n" + more, "bad.jsonl"), HasSubstr("bad.jsonl:1:9 (row 1): "));
  EXPECT_THAT(ErrorOf("{\"a\": 1}\n{\"a\": 1}}\n", "bad.jsonl"),
              HasSubstr("bad.jsonl:2:9 (row 3): "));
  EXPECT_THAT(ErrorOf("{\"a\": 1},\n{\"a\": 2}", "bad.jsonl"),
              EndsWith("bad.jsonl:1:9 (row 2): a ',' between values: take it out, or make the file "
                       "one array, with '[' at its beginning and ']' at its end"));
  EXPECT_THAT(ErrorOf("{\"a\": 1,}", "bad.jsonl"), HasSubstr("bad.jsonl:1:9 (row 1): "));
  EXPECT_THAT(ErrorOf("[1][2]3"), EndsWith("(row 3): more text after the end of the array"));
  EXPECT_THAT(ErrorOf("[{\"a\": NaNa}]"), HasSubstr("bad.json:1:8 (row 1): "));
  EXPECT_THAT(ErrorOf("[NaN5]"), HasSubstr("bad.json:1:2 (row 1): "));
  EXPECT_THAT(ErrorOf("[5NaN]"), HasSubstr("bad.json:1:3 (row 1): "));
  EXPECT_THAT(ErrorOf("[{NaN: 1}]"), HasSubstr("bad.json:1:5 (row 1): "));
  EXPECT_THAT(ErrorOf("[{\"a\": -NaN}]"), HasSubstr("bad.json:1:9 (row 1): "));
  EXPECT_THAT(ErrorOf("[{\"a\": 1},\n{\"a\": 1e999}]"),
              EndsWith("bad.json:2:1 (row 2): number overflow parsing '1e999'"));
  EXPECT_THAT(ErrorOf("[0, " + std::string(501, '[')),
              HasSubstr("bad.json:1:5 (row 2): lists and objects nested more than 500 deep"));
  ScratchFolder folder;
  EXPECT_THAT(ReadAll({folder / "none.json"}),
              ElementsAre(EndsWith("none.json: cannot be opened: No such file or directory")));
  EXPECT_THAT(ReadAll({folder.path()}),
              ElementsAre(HasSubstr(": of unknown kind; .json, .jsonl, .csv and .txt")));
  folder.Write("folder.json/a.json", "[]");
  EXPECT_THAT(ReadAll({folder / "folder.json"}),
              ElementsAre(EndsWith("folder.json: cannot be read: Is a directory")));
}

TEST(RowSourceTest, ReadsRowsLongerThanItsBuffer) {
  ScratchFolder folder;
  const std::string text(700'000, 'x');
  const std::string row = "{\"a\": \"" + text + "\"}";
  std::string array = "[", lines;
  for (int i = 0; i < 3; ++i) {
    array += (i > 0 ? ",\n" : "") + row;
    lines += row + "\n";
  }
  EXPECT_THAT(ReadAll({folder.Write("a.json", array + "]"), folder.Write("a.jsonl", lines)}).size(),
              6);
  EXPECT_THAT(ReadAll({folder.Write("b.json", array + "!")}).back(),
              HasSubstr("b.json:3:700010 (row 4): expected ',' or ']'"));
}

// Non-finite numbers are read as Python writes them, wherever a number may be. A string with the
// same letters remains a string.
TEST(RowSourceTest, ReadsNonFiniteNumbers) {
  ScratchFolder folder;
  const auto row =
      (*RowSource::Open({folder.Write(
           "a.jsonl", R"({"t": "NaN, \"-Infinity\"", "n": NaN, "l": [1, Infinity, -2.5e3, )"
                      R"(-Infinity, {"n": 3, "n": NaN}], "i": 18446744073709551615})")}))
          ->Next();
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(PythonJson((*row)->value),
            R"({"t": "NaN, \"-Infinity\"", "n": NaN, "l": [1, Infinity, -2500.0, -Infinity, )"
            R"({"n": NaN}], "i": 18446744073709551615})");
}

// Reading can be resumed at every position, in arrays, lines and several files: the remaining rows
// are the same, and so are the positions in error messages.
TEST(RowSourceTest, ResumesAnywhere) {
  ScratchFolder folder;
  const std::vector<std::string> files = {
      folder.Write("a.json", "[1, {\"a\": 2}]\n[\n 3\n]"), folder.Write("b.jsonl", "{\n} 5\n"),
      folder.Write("c.json", "[]"), folder.Write("d.json", "[6,\n7,\n x]")};
  auto source = RowSource::Open(files);
  ASSERT_TRUE(source.ok());
  std::vector<std::string> states;
  std::vector<std::string> rest;  // [i]: the rows after states[i]
  for (int i = 0; i <= 7; ++i) {
    states.push_back((*source)->SaveState());
    const auto row = (*source)->Next();
    rest.push_back(row.ok() ? Where(**row) + (*row)->value.dump()
                            : std::string(row.status().message()));
  }
  EXPECT_THAT(rest.back(), HasSubstr("d.json:3:2 (row 3): "));
  for (size_t begin = 0; begin < states.size(); ++begin) {
    auto resumed = RowSource::Open(files);
    ASSERT_TRUE((*resumed)->LoadState(states[begin]).ok());
    for (size_t i = begin; i < rest.size(); ++i) {
      const auto row = (*resumed)->Next();
      EXPECT_EQ(
          row.ok() ? Where(**row) + (*row)->value.dump() : std::string(row.status().message()),
          rest[i])
          << begin;
    }
  }
  auto ended = RowSource::Open({files[0]});
  while ((*ended)->Next()->has_value()) {
  }
  auto again = RowSource::Open({files[0]});
  ASSERT_TRUE((*again)->LoadState((*ended)->SaveState()).ok());
  EXPECT_FALSE((*again)->Next()->has_value());
}

TEST(RowSourceTest, RefusesStatesThatAreNotItsOwn) {
  ScratchFolder folder;
  const std::string file = folder.Write("a.json", "[1, 2, 3, 4, 5]");
  auto source = RowSource::Open({file});
  auto other = RowSource::Open({folder.Write("b.json", "[1]")});
  EXPECT_THAT((*source)->LoadState((*other)->SaveState()).message(),
              HasSubstr("the state was saved for"));
  for (const char* bad : {"", "{", "[]", "3", "{\"stage\": 3}", "{\"stage\": \"step_batches\"}",
                          "{\"stage\": \"row_source\"}"}) {
    EXPECT_THAT((*source)->LoadState(bad).message(),
                HasSubstr("not a state that a source of rows saved"))
        << bad;
  }
  std::string state = (*source)->SaveState();
  state.replace(state.find("[1,1,2,0,0]"), 11, "[1,1,2,0]");
  EXPECT_THAT((*source)->LoadState(state).message(), HasSubstr("broken"));
  (*source)->Next().IgnoreError();
  (*source)->Next().IgnoreError();
  folder.Write("a.json", "[1");
  auto shorter = RowSource::Open({file});
  EXPECT_THAT((*shorter)->LoadState((*source)->SaveState()).message(),
              HasSubstr("is shorter than when the state was saved"));
}

constexpr char kGolden[] = "tests/golden/files/";

TEST(RowSourceTest, ReadsEveryKindAsDatasetsDoes) {
  const auto golden = base::OrderedJson::parse(ReadRunfile(std::string(kGolden) + "rows.json"));
  ASSERT_GE(golden.size(), 15);
  for (const auto& [file, rows] : golden.items()) {
    std::vector<std::string> wanted;
    for (const auto& row : rows) wanted.push_back(row.dump());
    EXPECT_THAT(ReadAll({kGolden + ("data/" + file)}), ElementsAreArray(wanted)) << file;
  }
}

// Returns the results of Next() from now on: positions and rows, then the error if there is one.
std::vector<std::string> Rest(RowSource& source) {
  std::vector<std::string> rest;
  while (true) {
    const auto row = source.Next();
    if (!row.ok()) {
      rest.emplace_back(row.status().message());
      return rest;
    }
    if (!row->has_value()) return rest;
    rest.push_back(Where(**row) + (*row)->value.dump());
  }
}

TEST(RowSourceTest, ResumesInEveryKind) {
  const auto golden = nlohmann::json::parse(ReadRunfile(std::string(kGolden) + "rows.json"));
  for (const auto& [file, rows] : golden.items()) {
    const std::string path = kGolden + ("data/" + file);
    auto whole = RowSource::Open({path});
    ASSERT_TRUE(whole.ok()) << whole.status();
    const std::vector<std::string> all = Rest(**whole);
    auto source = RowSource::Open({path});
    for (size_t done = 0; done <= all.size(); ++done) {
      auto resumed = RowSource::Open({path});
      const absl::Status loaded = (*resumed)->LoadState((*source)->SaveState());
      ASSERT_TRUE(loaded.ok()) << loaded;
      EXPECT_THAT(Rest(**resumed), ElementsAreArray(all.begin() + done, all.end()))
          << file << " after " << done;
      (*source)->Next().IgnoreError();
    }
  }
}

TEST(RowSourceTest, TheLastOfTwoEqualKeysCounts) {
  ScratchFolder folder;
  EXPECT_THAT(
      ReadAll({folder.Write("a.jsonl", "{\"a\": 1, \"b\": 2, \"a\": {\"c\": 3, \"c\": 4}}")}),
      ElementsAre(R"({"a":{"c":4},"b":2})"));
}

TEST(RowSourceTest, NamesTheRowOfABadCsvFile) {
  EXPECT_THAT(ErrorOf("a,b\n1,2\n\"x\ny\",2\n1,2,3\n", "bad.csv"),
              EndsWith("bad.csv:5 (row 3): has 3 cells, and the header names 2"));
  EXPECT_THAT(
      ErrorOf("a,b\n1,2\n3,\"x\n4,5\n", "bad.csv"),
      EndsWith("bad.csv:3 (row 2): a quoted cell never ends: its closing quote is missing"));
  EXPECT_THAT(
      ErrorOf("a,\"b\n1,2\n", "bad.csv"),
      EndsWith("bad.csv:1 (row 0): a quoted cell never ends: its closing quote is missing"));
  EXPECT_THAT(ErrorOf("a,b\n1,2\n3,ab\xE9t\n", "bad.csv"),
              EndsWith("bad.csv:3 (row 2): byte 0xE9 after 2 bytes of the text is not UTF-8"));
  EXPECT_THAT(ErrorOf("a\xFF,b\n1,2\n", "bad.csv"),
              EndsWith("bad.csv:1 (row 0): byte 0xFF after 1 bytes of the text is not UTF-8"));
  EXPECT_THAT(ErrorOf("", "empty.csv"), "no row, no error");
  EXPECT_THAT(ErrorOf("a,b\n", "empty.csv"), "no row, no error");
}

TEST(RowSourceTest, NamesTheRowOfABadTextFile) {
  EXPECT_THAT(ErrorOf("one\r\ntwo\n\xC3\n", "bad.txt"),
              EndsWith("bad.txt:3 (row 3): byte 0xC3 after 0 bytes of the text is not UTF-8"));
  EXPECT_THAT(ErrorOf(std::string("o\0n\0e\0", 6), "nul.txt"),
              std::string(R"({"text":"o\u0000n\u0000e\u0000"})"));
  EXPECT_THAT(ErrorOf(std::string("\xFF\xFEo\0n\0e\0", 8), "wide.txt"),
              EndsWith("wide.txt: is UTF-16; only UTF-8 can be read"));
  EXPECT_THAT(ErrorOf("[{\"a\": \"\xE9t\xE9\"}]", "latin.json"),
              HasSubstr("latin.json:1:10 (row 1): syntax error"));
}

// A compressed file that is truncated at any point gives some of its rows and then a one-line
// error.
TEST(RowSourceTest, SaysThatACompressedFileIsCutOff) {
  ScratchFolder folder;
  for (const char* file :
       {"hidden.jsonl", "quotes.csv.gz", "plain.jsonl.gz", "plain.jsonl.zst", "lines.txt.zst"}) {
    const std::string whole = ReadRunfile(std::string(kGolden) + "data/" + file);
    const std::string format = whole[0] == '\x1F' ? "gzip" : "Zstandard";
    const std::vector<std::string> rows = ReadAll({kGolden + ("data/" + std::string(file))});
    int cut_off = 0;
    for (size_t size = 5; size < whole.size(); ++size) {
      const std::vector<std::string> read = ReadAll({folder.Write(file, whole.substr(0, size))});
      const bool says_so =
          !read.empty() &&
          read.back().find("the " + format + " data ends early: the file is cut off") !=
              std::string::npos;
      cut_off += says_so;
      EXPECT_LE(read.size(), rows.size() + 1);
    }
    EXPECT_GT(cut_off, whole.size() / 2) << file;
  }
  std::string broken = ReadRunfile(std::string(kGolden) + "data/hidden.jsonl");
  broken[broken.size() - 6] ^= 1;  // a byte of the checksum
  EXPECT_THAT(ReadAll({folder.Write("broken.jsonl", broken)}).back(),
              EndsWith("broken.jsonl: the gzip data is broken: incorrect data check"));
  const std::string zstd = ReadRunfile(std::string(kGolden) + "data/lines.txt.zst");
  EXPECT_THAT(
      ReadAll({folder.Write("broken.txt", zstd.substr(0, 6) + "rubbish" + zstd.substr(6))}).back(),
      HasSubstr("the Zstandard data is broken: "));
}

// A Parquet or Arrow file that is truncated or changed at any point gives rows or a one-line error.
TEST(RowSourceTest, SaysThatAParquetOrArrowFileIsBroken) {
  ScratchFolder folder;
  for (const char* name : {"flat.parquet", "file.arrow", "stream.arrow"}) {
    const std::string whole = ReadRunfile(std::string(kGolden) + "data/" + name);
    const size_t step = whole.size() / 97 + 1;
    int failed = 0;
    for (size_t at = 0; at < whole.size(); at += step) {
      const std::vector<std::string> cut = ReadAll({folder.Write(name, whole.substr(0, at))});
      const bool says_so = !cut.empty() && cut.back().find(folder / name) == 0;
      EXPECT_TRUE(says_so || name != std::string("flat.parquet")) << at;
      failed += says_so;
      std::string changed = whole;
      changed[at] ^= 0x55;
      for (const std::string& line : ReadAll({folder.Write(name, changed)}))
        EXPECT_EQ(line.find('\n'), std::string::npos);
    }
    EXPECT_GT(failed, 60) << name;
  }
  EXPECT_THAT(ReadAll({folder.Write("bad.parquet", "rubbish, and not a little of it")}),
              ElementsAre(HasSubstr("bad.parquet: Parquet magic bytes not found in footer")));
  EXPECT_THAT(ReadAll({folder / "none.parquet"}), ElementsAre(HasSubstr("none.parquet: ")));
  EXPECT_THAT(ReadAll({folder.Write("empty.arrow", "")}), ElementsAre(HasSubstr("empty.arrow: ")));
}

constexpr char kTooMuchText[] = " (row 1): refers to more than 268435456 bytes of text in a row";
constexpr char kTooManyValues[] = " (row 1): refers to more than 16777216 values in a row";

std::string Reference(const char* name) {
  return absl::StrCat("tests/data/files/references/", name);
}

// Rows that would need too much memory are rejected. These files have some hundred bytes, but their
// rows refer to the same values many times.
TEST(RowSourceTest, RefusesRowsThatReferToTooMuch) {
  EXPECT_THAT(ReadAll({Reference("nulls.arrow")}), ElementsAre(EndsWith(kTooManyValues)));
  EXPECT_THAT(ReadAll({Reference("runs.arrow")}), ElementsAre(EndsWith(kTooMuchText)));
  EXPECT_THAT(ReadAll({Reference("each_kind.arrow")}),
              ElementsAre(R"({"runs":"a","views":["b"],"sparse":"a","dense":"b"})",
                          R"({"runs":null,"views":["a","b"],"sparse":2,"dense":1})"));
}

TEST(RowSourceTest, RefusesRowsThatReferToTooMuchInAnyWay) {
  for (const char* name : {"dictionary.arrow", "views.arrow", "union.arrow"})
    EXPECT_THAT(ReadAll({Reference(name)}), ElementsAre(EndsWith(kTooMuchText))) << name;
  EXPECT_THAT(ReadAll({Reference("nulls.parquet")}),
              ElementsAre(HasSubstr(" bytes when it is decompressed, and the file has ")));
  EXPECT_THAT(ReadAll({Reference("rows.arrow")}).back(),
              EndsWith(": refers to more than 102400 rows in a file of this size"));
}

TEST(RowSourceTest, RefusesRowsThatTakeTooMuchMemory) {
  ScratchFolder folder;
  // A sparse file: 4 GB that take no space on the disk.
  for (const char* name : {"holes.json", "holes.csv", "holes.txt"}) {
    const std::string file = folder.Write(name, "");
    std::filesystem::resize_file(file, int64_t{4} << 30);
    EXPECT_THAT(ReadAll({file}), ElementsAre(HasSubstr(": more than 268435456 bytes without")));
  }
  std::string many = "[[0";
  for (int i = 0; i < 17'000'000; ++i) many += ",0";
  EXPECT_THAT(ErrorOf(many + "]]"), HasSubstr("(row 1): more than 16777216 values in a row"));
  std::string members = "[{\"a\":0";
  for (int i = 0; i < 2'000'000; ++i) members += ",\"a\":0";
  EXPECT_THAT(ErrorOf(members + "}]"), HasSubstr("(row 1): more than 16777216 values in a row"));
}

// A header of 100,000 names, including equal ones, is read quickly.
TEST(RowSourceTest, ReadsACsvFileOf100000Columns) {
  std::string header = "a", cells = "0";
  for (int i = 1; i < 100'000; ++i) header += ",a", cells += ",0";
  ScratchFolder folder;
  const std::vector<std::string> rows =
      ReadAll({folder.Write("wide.csv", absl::StrCat(header, "\n", cells, "\n"))});
  ASSERT_EQ(rows.size(), 1);
  EXPECT_THAT(rows[0], EndsWith("\"a.99999\":\"0\"}"));
}

TEST(RowSourceTest, ReadsALineOf100Megabytes) {
  ScratchFolder folder;
  const std::string text(100'000'000, 'x');
  const auto size = [](const std::string& file) {
    const auto row = (*RowSource::Open({file}))->Next();
    return (**row).value["text"].get_ref<const std::string&>().size();
  };
  EXPECT_EQ(size(folder.Write("a.txt", text + "\n")), text.size());
  EXPECT_EQ(size(folder.Write("a.jsonl", "{\"text\": \"" + text + "\"}\n")), text.size());
  EXPECT_EQ(size(folder.Write("a.csv", "text\n\"" + text + "\"\n")), text.size());
}

}  // namespace
}  // namespace moonring::data
