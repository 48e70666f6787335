// Word lists with a few words: parsing, errors, and segmentations whose probability is computed by
// hand.

#include "data/similarity/word_list.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/similarity/word_segmenter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kModel[] =
    "start -0.5 -3.14e+100 -3.14e+100 -1\nafter B - -0.5 -1 -\nafter E -0.5 - - -1\n"
    "after M - -0.5 -1 -\nafter S -0.5 - - -1\n";

std::string List(const std::string& words, const std::string& characters = "characters 0\n") {
  return "# a list\n" + words + characters + kModel;
}

std::shared_ptr<const WordList> Parsed(const std::string& text) {
  auto list = WordList::Parse(text, "list");
  EXPECT_OK(list);
  return *list;
}

std::vector<std::pair<std::string, int64_t>> Prefixes(const WordList& list,
                                                      const std::string& text) {
  std::vector<std::pair<std::string, int64_t>> found;
  list.Prefixes(text, [&](size_t bytes, int64_t frequency) {
    found.emplace_back(text.substr(0, bytes), frequency);
  });
  return found;
}

TEST(WordListTest, FindsTheWordsThatATextBeginsWith) {
  const auto list = Parsed(List("words 5 20\n北 4\n北京 6\n北京大学 7\n南 0\n大学 3\n"));
  EXPECT_EQ(list->total(), 20);
  EXPECT_THAT(Prefixes(*list, "北京大学生"),
              ElementsAre(Pair("北", 4), Pair("北京", 6), Pair("北京大学", 7)));
  EXPECT_THAT(Prefixes(*list, "北京大"), ElementsAre(Pair("北", 4), Pair("北京", 6)));
  EXPECT_TRUE(Prefixes(*list, "南京").empty());
  EXPECT_TRUE(Prefixes(*list, "").empty());
  EXPECT_EQ(list->Frequency("大学"), 3);
  EXPECT_EQ(list->Frequency("北京大"), 0);
  EXPECT_EQ(list->Frequency("zz"), 0);
}

TEST(WordListTest, TakesTheLikeliestPath) {
  // The probability of 北京 + 大学 is 6 x 3 / 40^2; that of 北京大 + 学 is 2 x 1 / 40^2.
  const WordSegmenter segmenter(Parsed(List("words 3 40\n北京 6\n北京大 2\n大学 3\n")));
  EXPECT_THAT(segmenter.Cut("北京大学"), ElementsAre("北京", "大学"));
  EXPECT_THAT(segmenter.Cut("北京大"), ElementsAre("北京大"));
  EXPECT_THAT(segmenter.Cut(""), ElementsAre());
}

TEST(WordListTest, SingleCharactersAreCutByTheirPlaces) {
  // For 鼋鼍, begin then end (log-probability -0.5 - 1 - 0.5 - 1) is more likely than two single
  // characters (-1 - 9 - 1 - 9).
  const std::string characters = "characters 2\n鼋 -1 - - -9\n鼍 - -1 - -9\n";
  EXPECT_THAT(WordSegmenter(Parsed(List("words 0 1\n", characters))).Cut("鼋鼍"),
              ElementsAre("鼋鼍"));
  const std::string single = "characters 2\n鼋 -9 - - -1\n鼍 - -9 - -1\n";
  EXPECT_THAT(WordSegmenter(Parsed(List("words 0 1\n", single))).Cut("鼋鼍"),
              ElementsAre("鼋", "鼍"));
}

TEST(WordListTest, RefusesInvalidLists) {
  const auto refused = [](const std::string& text, const std::string& message) {
    EXPECT_THAT(WordList::Parse(text, "list"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refused("", "list:1: expected 'words' and 2 fields");
  refused(List("words x 1\n"), "list:2: expected a number of 0 or more, got 'x'");
  refused(List("words 1 1\na b c\n"), "list:3: expected 2 fields");
  refused(List("words 2 2\nb 1\na 1\n"), "list:4: expected words sorted");
  refused(List("words 1 1\na 1\n", "characters 1\nab - - - -\n"), "list:5: expected a character");
  refused(List("words 0 1\n", "characters 1\na - - - x\n"), "expected a log-probability, got 'x'");
  refused("words 0 1\ncharacters 0\nstart 1 2 3 4\nafter E 1 2 3 4\n",
          "list:4: expected B, got 'E'");
  refused("words 0 1\n\xFF", "list: is no UTF-8 from byte 10");
  EXPECT_THAT(WordList::Read("no/such/file"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no/such/file")));
}

TEST(WordListTest, ReadsTheHostsOwn) {
  ASSERT_OK_AND_ASSIGN(const auto list, WordList::Read("data/similarity/words.txt"));
  EXPECT_EQ(list->total(), 60101967);  // the total in jieba's list
  EXPECT_EQ(list->Frequency("C++"), 3);
  EXPECT_EQ(list->Frequency("C+"), 0);  // not a word, but the beginning of one
  EXPECT_EQ(list->Of(U'\u4E00')[static_cast<int>(PlaceInWord::kBegin)], -3.6544978750449433);
  EXPECT_EQ(list->start()[static_cast<int>(PlaceInWord::kMiddle)], kImpossible);
  EXPECT_EQ(list->after(3)[0], -0.7211965654669841);  // B after S
}

}  // namespace
}  // namespace moonring::data
