// Pre-tokenizers, and the regular expressions that they use, give the same pieces as the tokenizers
// library (stages_golden.json).
#include "data/text/tokenizer/pre_tokenizer.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/text/regex/oniguruma_pattern.h"
#include "data/text/regex/regex.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using moonring::testing::ReadRunfile;
using moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Pieces(const PreTokenizer& pre_tokenizer, absl::string_view text,
                                bool begins_text = true) {
  std::vector<std::string> pieces;
  pre_tokenizer.Split(text, begins_text,
                      [&](absl::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(PreTokenizer, CutsAsTheLibraryDoes) {
  const json golden =
      json::parse(ReadRunfile("tests/data/text/tokenizer/stages_golden.json"))["pre_tokenizers"];
  ASSERT_GT(golden.size(), 50);
  for (const json& test_case : golden) {
    ASSERT_OK_AND_ASSIGN(const auto made, PreTokenizer::FromJson(test_case["description"],
                                                                 std::nullopt, "pre_tokenizer"));
    EXPECT_EQ(Pieces(*made, test_case["text"].get<std::string>()),
              test_case["pieces"].get<std::vector<std::string>>())
        << test_case["description"];
  }
}

TEST(PreTokenizer, ByteLevelPutsASpaceBeforeAndCutsByGpt2sPattern) {
  const json with_space = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  ASSERT_OK_AND_ASSIGN(const auto none, PreTokenizer::FromJson(nullptr, std::nullopt, ""));
  EXPECT_FALSE(none->byte_level());
  EXPECT_THAT(Pieces(*none, "I'm  here"), ElementsAre("I'm  here"));
  ASSERT_OK_AND_ASSIGN(const auto prefixed, PreTokenizer::FromJson(with_space, std::nullopt, ""));
  EXPECT_TRUE(prefixed->byte_level());
  EXPECT_THAT(Pieces(*prefixed, "I'm  here"), ElementsAre(" I", "'m", " ", " here"));
  EXPECT_THAT(Pieces(*prefixed, " I"), ElementsAre(" I"));
  EXPECT_THAT(Pieces(*prefixed, ""), ElementsAre());
  ASSERT_OK_AND_ASSIGN(const auto overridden, PreTokenizer::FromJson(with_space, false, ""));
  EXPECT_THAT(Pieces(*overridden, "I'm"), ElementsAre("I", "'m"));
  ASSERT_OK_AND_ASSIGN(
      const auto chained,
      PreTokenizer::FromJson({{"type", "Sequence"}, {"pretokenizers", {with_space}}}, false, ""));
  EXPECT_THAT(Pieces(*chained, "I"), ElementsAre(" I"))
      << "only a ByteLevel that stands alone is overridden";
}

TEST(PreTokenizer, MetaspaceFirstIsTheTextsOwnBeginning) {
  const json first = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}};
  ASSERT_OK_AND_ASSIGN(const auto made, PreTokenizer::FromJson(first, std::nullopt, ""));
  EXPECT_THAT(Pieces(*made, "a b"), ElementsAre("_a", "_b"));
  EXPECT_THAT(Pieces(*made, "a b", /*begins_text=*/false), ElementsAre("a", "_b"));
}

TEST(PreTokenizer, RefusesByNameAndPlace) {
  const auto refusal = [](const json& description) {
    return PreTokenizer::FromJson(description, std::nullopt, "t.json: pre_tokenizer").status();
  };
  const json byte_level = {{"type", "ByteLevel"}};
  EXPECT_THAT(
      refusal({{"type", "Sequence"}, {"pretokenizers", {byte_level, {{"type", "Metaspace"}}}}}),
      StatusIs(absl::StatusCode::kUnimplemented,
               HasSubstr("t.json: pre_tokenizer.pretokenizers[1]: \"Metaspace\" after ByteLevel")));
  EXPECT_THAT(refusal({{"type", "UnicodeScripts"}}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("pre-tokenizer type \"UnicodeScripts\" is not supported")));
  json metaspace = {{"type", "Metaspace"}, {"replacement", "__"}};
  EXPECT_THAT(
      refusal(metaspace),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("pre_tokenizer.replacement: expected one character, found \"__\"")));
  metaspace["replacement"] = "_";
  metaspace["add_prefix_space"] = false;
  EXPECT_THAT(refusal(metaspace),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("add_prefix_space false goes with prepend_scheme \"never\"")));
  metaspace["prepend_scheme"] = "last";
  EXPECT_THAT(refusal(metaspace), StatusIs(absl::StatusCode::kUnimplemented,
                                           HasSubstr("prepend_scheme \"last\" is not supported")));
  EXPECT_THAT(refusal({{"type", 3}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pre_tokenizer.type: expected a string, found 3")));
  EXPECT_THAT(refusal("ByteLevel"), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("expected an object, found \"ByteLevel\"")));
  json split = {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Sideways"}};
  EXPECT_THAT(refusal(split),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("behavior \"Sideways\"")));
  split["behavior"] = "Isolated";
  split["invert"] = 1;
  EXPECT_THAT(refusal(split),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pre_tokenizer.invert: expected a boolean, found 1")));
  split["invert"] = false;
  split["pattern"] = {{"Regex", "a)"}};
  EXPECT_THAT(refusal(split),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pre_tokenizer.pattern: pattern \"a)\": unmatched closing")));
  split["pattern"] = {{"Regex", "\\bword"}};
  EXPECT_THAT(refusal(split),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("\"\\b\" is not supported")));
  const json many = {{"type", "Sequence"},
                     {"pretokenizers", json(100'000, {{"type", "WhitespaceSplit"}})}};
  EXPECT_THAT(refusal(many), StatusIs(absl::StatusCode::kUnimplemented,
                                      HasSubstr("more than 100 pre-tokenizers are not supported")));
}

TEST(OnigurumaPattern, RefusesWhatMeansSomethingElseToPcre2) {
  for (const std::string pattern :
       {"\\h", "\\Kx", "(a)\\1", "\\R", "\\X", "[a&&b]", "[[:alpha:]]", "[a[^b]]", "[\\W]",
        "(?m:a)", "(?<n>a)", "(?~a)", "a(?i)b", "\\xe9", "[]a]", "\\p"}) {
    EXPECT_THAT(RewriteOnigurumaPattern(pattern),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("is not supported")))
        << pattern;
  }
  EXPECT_THAT(
      RewriteOnigurumaPattern(std::string(1'000'000, '[')),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("100 classes within one another")));
  for (const std::string pattern : {"[ab", "a\\", "\\p{L", "\\x{12"}) {
    EXPECT_THAT(RewriteOnigurumaPattern(pattern),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ends inside")))
        << pattern;
  }
}

TEST(Regex, MatchesOnLongTextsNeitherFailNorTakeForever) {
  ASSERT_OK_AND_ASSIGN(const auto regex,
                       Regex::Compile(R"((?:ab|a)*c|\s*[\r\n]+|\s+(?!\S)|\s+|[^\s]+)"));
  for (const std::string& unit :
       {std::string(" "), std::string("ab"), std::string("\n "), std::string("x y")}) {
    std::string text;
    while (text.size() < 1000000) text += unit;
    size_t size = 0;
    regex->Split(text, [&](absl::string_view piece, bool) { size += piece.size(); });
    EXPECT_EQ(size, text.size());
  }
}

TEST(Regex, GivesUpWhereAPatternWouldTryForever) {
  ASSERT_OK_AND_ASSIGN(const auto regex,
                       Regex::Compile("(a+)+[bc]"));  // 2^60 ways to split 60 letters
  EXPECT_THROW(regex->Split(std::string(60, 'a'), [](absl::string_view, bool) {}),
               std::runtime_error);
}

}  // namespace
}  // namespace moonring::data
