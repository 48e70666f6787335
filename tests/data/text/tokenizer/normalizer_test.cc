// Normalizers give the same texts as the tokenizers library (stages_golden.json), and malformed
// UTF-8 is replaced as in Python's errors="replace".
#include "data/text/tokenizer/normalizer.h"

#include <iterator>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/text/unicode/utf8.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using moonring::testing::ReadRunfile;
using moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::HasSubstr;

TEST(Normalizer, RewritesAsTheLibraryDoes) {
  const json golden =
      json::parse(ReadRunfile("tests/data/text/tokenizer/stages_golden.json"))["normalizers"];
  ASSERT_GT(golden.size(), 50);
  for (const json& test_case : golden) {
    ASSERT_OK_AND_ASSIGN(const auto made,
                         Normalizer::FromJson(test_case["description"], "normalizer"));
    std::string storage;
    EXPECT_EQ(made->Normalize(test_case["text"].get_ref<const std::string&>(), storage),
              test_case["normalized"].get<std::string>())
        << test_case;
  }
}

TEST(Normalizer, LeavesWhatNeedsNothingInPlace) {
  ASSERT_OK_AND_ASSIGN(const auto made, Normalizer::FromJson({{"type", "NFC"}}, ""));
  const std::string text = "ascii, caf\u00e9, \u6f22\u5b57";
  std::string storage;
  EXPECT_EQ(made->Normalize(text, storage).data(), text.data());
}

TEST(Normalizer, RefusesByNameAndPlace) {
  EXPECT_THAT(
      Normalizer::FromJson(
          {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Unheard"}}}}},
          "t.json: normalizer"),
      StatusIs(
          absl::StatusCode::kUnimplemented,
          HasSubstr(
              "t.json: normalizer.normalizers[1]: normalizer type \"Unheard\" is not supported")));
  EXPECT_THAT(Normalizer::FromJson({{"type", "Replace"}, {"content", ""}}, "normalizer"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("normalizer: has no \"pattern\" (an object)")));
  EXPECT_THAT(Normalizer::FromJson(json::array(), "normalizer"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected an object, found an array")));
}

// A chain of ten steps, each of which replaces one letter by ten, is rejected.
TEST(Normalizer, RefusesAChainThatExplodes) {
  json parts = json::array();
  for (int i = 0; i < 10; ++i)
    parts.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaaaaaaaa"}});
  EXPECT_THAT(Normalizer::FromJson({{"type", "Sequence"}, {"normalizers", parts}}, "normalizer"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("normalizer.normalizers[6]: with this Replace the chain could "
                                 "make a text 1e+07 times longer")));
  parts = json::array();  // these replacements do not lengthen the text
  for (int i = 0; i < 50; ++i)
    parts.push_back({{"type", "Replace"}, {"pattern", {{"String", "``"}}}, {"content", "\""}});
  EXPECT_TRUE(
      Normalizer::FromJson({{"type", "Sequence"}, {"normalizers", parts}}, "normalizer").ok());
}

TEST(Utf8, ReplacesEachMaximalMalformedPart) {
  EXPECT_EQ(ReplaceMalformedUtf8("a\xF0\x9F\x98z"), "a\uFFFDz");          // truncated: one part
  EXPECT_EQ(ReplaceMalformedUtf8("\xC0\x80"), "\uFFFD\uFFFD");            // overlong: each byte
  EXPECT_EQ(ReplaceMalformedUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(ReplaceMalformedUtf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(ReplaceMalformedUtf8("\xE4\xBD"), "\uFFFD");
  EXPECT_EQ(ReplaceMalformedUtf8("12345678\xFF"
                                 "12345678"),
            "12345678\uFFFD12345678");
  const std::string valid = "1234567\u00e9\u6f22\U0001f600\U0010ffff\u0080";
  EXPECT_EQ(ValidUtf8Prefix(valid), valid.size());
  EXPECT_EQ(ReplaceMalformedUtf8(valid), valid);
}

TEST(Utf8, AnIncompleteCharacterAtTheEndMayBecomeWhole) {
  const std::string whole = "a\u00F1\u20AC\U0001F600";  // of one to four bytes
  const std::set<size_t> ends = {0, 1, 3, 6, 10};
  for (size_t length = 0; length <= whole.size(); ++length) {
    const size_t begin = *std::prev(ends.upper_bound(length));
    EXPECT_EQ(CompleteUtf8Prefix(whole.substr(0, length)), begin) << length;
  }
  for (const std::string malformed : {"\xFF", "\x80", "a\x80\x80\x80\x80", "\xC0", "\xE0\x80",
                                      "\xED\xA0", "\xF4\x90", "\xF5\x80\x80"}) {
    EXPECT_EQ(CompleteUtf8Prefix(malformed), malformed.size()) << "no byte could mend it";
  }
}

}  // namespace
}  // namespace moonring::data
