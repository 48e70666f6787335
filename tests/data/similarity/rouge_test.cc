// ROUGE compared with values computed by hand. (text_similarity_test compares it with
// rouge-chinese.)

#include "data/similarity/rouge.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace moonring::data {
namespace {

using Words = std::vector<std::string>;

double F(double p, double r) { return 2 * p * r / (p + r + 1e-8); }

TEST(RougeTest, CountsEachRunOfWordsOnce) {
  const RougeScores scores = Rouge({"a", "a", "b", "c"}, {"a", "b", "d", "a", "b"});
  EXPECT_NEAR(scores.rouge_1, F(2 / 3.0, 2 / 3.0), 1e-15);  // a b of a b c, of a b d
  EXPECT_NEAR(scores.rouge_2, F(1 / 3.0, 1 / 3.0), 1e-15);  // ab of aa ab bc, of ab bd da
  EXPECT_NEAR(scores.rouge_l, F(3 / 4.0, 3 / 5.0), 1e-15);  // a a b
}

TEST(RougeTest, TheLongestCommonSubsequenceMayHaveGaps) {
  const RougeScores scores = Rouge({"a", "x", "b", "y", "c"}, {"z", "a", "b", "c"});
  EXPECT_NEAR(scores.rouge_l, F(3 / 5.0, 3 / 4.0), 1e-15);
  EXPECT_EQ(scores.rouge_2, 0.0);
}

TEST(RougeTest, OfOneWordThereAreNoPairs) {
  const RougeScores scores = Rouge({"a"}, {"a"});
  EXPECT_NEAR(scores.rouge_1, F(1, 1), 1e-15);
  EXPECT_EQ(scores.rouge_2, 0.0);
  EXPECT_NEAR(scores.rouge_l, F(1, 1), 1e-15);
}

TEST(RougeTest, IsZeroWhereThereIsNoWord) {
  for (const auto& [prediction, label] :
       {std::pair<Words, Words>{{}, {"a"}}, {{"a"}, {}}, {{" ", "\n"}, {"a"}}, {{}, {}}}) {
    const RougeScores scores = Rouge(prediction, label);
    EXPECT_EQ(scores.rouge_1 + scores.rouge_2 + scores.rouge_l, 0.0);
  }
}

// White space separates words and is not a word itself. Exceptions: an empty line, and white space
// between two line ends, count as an empty word.
TEST(RougeTest, ASentenceOfWhiteSpaceIsAWord) {
  EXPECT_NEAR(Rouge({"a", " ", "b"}, {"a", "b"}).rouge_2, F(1, 1), 1e-15);
  EXPECT_NEAR(Rouge({"a", "\n", "b"}, {"a", "b"}).rouge_2, F(1, 1), 1e-15);
  const RougeScores scores = Rouge({"a", "\n", "\n", "b"}, {"a", "b"});
  EXPECT_NEAR(scores.rouge_1, F(2 / 3.0, 1), 1e-15);
  EXPECT_EQ(scores.rouge_2, 0.0);
  EXPECT_NEAR(scores.rouge_l, F(2 / 3.0, 1), 1e-15);
}

}  // namespace
}  // namespace moonring::data
