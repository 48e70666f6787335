// Unigram compared with a search over all segmentations of a word; and its errors.
#include "data/text/tokenizer/unigram.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/text/tokenizer/byte_trie.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ScoredPieces = std::vector<std::pair<std::string, double>>;

// Options that refer to these pieces, without copies.
UnigramOptions OptionsOf(const ScoredPieces& pieces) {
  UnigramOptions options;
  for (const auto& [text, score] : pieces) options.pieces.push_back({text, score});
  options.unknown = 0;
  return options;
}

std::vector<int32_t> EncodedWord(const Unigram& unigram, const std::string& word) {
  const auto workspace = unigram.NewWorkspace();
  std::vector<int32_t> ids, again;
  unigram.Encode(word, *workspace, ids);
  unigram.Encode(word, *workspace, again);
  EXPECT_EQ(ids, again);
  return ids;
}

double BestSum(const ScoredPieces& pieces, const std::string& word) {
  if (word.empty()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  for (const auto& [text, score] : pieces) {
    if (word.compare(0, text.size(), text) == 0)
      best = std::max(best, score + BestSum(pieces, word.substr(text.size())));
  }
  return best;
}

TEST(Unigram, FindsTheLargestSum) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    ScoredPieces pieces = {{"a", -5}, {"b", -6}, {"c", -7}};
    while (pieces.size() < 12) {
      std::string text;
      for (size_t size = 2 + random() % 3; text.size() < size;)
        text.push_back(static_cast<char>('a' + random() % 3));
      if (std::none_of(pieces.begin(), pieces.end(),
                       [&](const auto& piece) { return piece.first == text; })) {
        pieces.emplace_back(text, -static_cast<double>(random() % 1000) / 64);
      }
    }
    UnigramOptions options = OptionsOf(pieces);
    options.unknown.reset();
    ASSERT_OK_AND_ASSIGN(const auto unigram, Unigram::Create(options));
    std::string word;
    for (size_t size = random() % 9; word.size() < size;)
      word.push_back(static_cast<char>('a' + random() % 3));
    double sum = 0;
    std::string text;
    for (const int32_t id : EncodedWord(*unigram, word)) {
      sum += pieces[id].second;
      text += pieces[id].first;
    }
    EXPECT_EQ(text, word);
    EXPECT_DOUBLE_EQ(sum, BestSum(pieces, word)) << word;
  }
}

TEST(Unigram, UnknownOnesAreOneToken) {
  const ScoredPieces pieces = {{"?", 0}, {"a", -1}, {"\u6f22", -2}};
  UnigramOptions options = OptionsOf(pieces);
  ASSERT_OK_AND_ASSIGN(const auto fused, Unigram::Create(options));
  EXPECT_THAT(EncodedWord(*fused, "xya\u00e9\u6f22z"), ElementsAre(0, 1, 0, 2, 0));
  options.unknown.reset();
  ASSERT_OK_AND_ASSIGN(const auto dropped, Unigram::Create(options));
  EXPECT_THAT(EncodedWord(*dropped, "xya\u00e9\u6f22z"), ElementsAre(1, 2));
}

TEST(Unigram, APieceThatComesAgainHasItsLastId) {
  ASSERT_OK_AND_ASSIGN(const auto unigram,
                       Unigram::Create(OptionsOf({{"?", 0}, {"a", -1}, {"a", -2}})));
  EXPECT_THAT(EncodedWord(*unigram, "a"), ElementsAre(2));
  EXPECT_EQ(*unigram->TokenOf(1), "a");
  EXPECT_EQ(unigram->size(), 3);
}

TEST(Unigram, Refuses) {
  const ScoredPieces infinite = {{"a", -1}, {"b", std::numeric_limits<double>::infinity()}},
                     one = {{"a", -1}};
  EXPECT_THAT(
      Unigram::Create(OptionsOf(infinite)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vocab[1]: its score is not finite")));
  UnigramOptions options = OptionsOf(one);
  for (const int64_t id : {-1, 1}) {
    options.unknown = id;
    EXPECT_THAT(Unigram::Create(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("is not one of the 1 pieces")));
  }
}

TEST(ByteTrie, FindsKeysAndNothingElse) {
  const ByteTrie trie(
      {{"ab", 0}, {"a", 1}, {"\xFF", 2}, {"ab", 3}, {absl::string_view("\0x", 2), 4}});
  const auto value = [&](absl::string_view key) {
    int32_t node = ByteTrie::kRoot;
    for (const char byte : key) {
      node = trie.Step(node, byte);
      if (node == ByteTrie::kNone) return -2;
    }
    return trie.ValueAt(node);
  };
  EXPECT_EQ(value("ab"), 3);
  EXPECT_EQ(value("a"), 1);
  EXPECT_EQ(value("\xFF"), 2);
  EXPECT_EQ(value(absl::string_view("\0x", 2)), 4);
  EXPECT_EQ(value(absl::string_view("\0", 1)), -1);
  EXPECT_EQ(value(""), -1);
  EXPECT_EQ(value("b"), -2);
  EXPECT_EQ(value("abc"), -2);
}

}  // namespace
}  // namespace moonring::data
