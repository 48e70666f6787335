// BLEU compared with values computed by hand. (text_similarity_test compares it with nltk.)

#include "data/similarity/bleu.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"

namespace moonring::data {
namespace {

double Mean(double p1, double p2, double p3, double p4) {
  return std::pow(p1 * p2 * p3 * p4, 0.25);
}

TEST(BleuTest, IsTheGeometricMeanOfClippedPrecisions) {
  EXPECT_DOUBLE_EQ(Bleu4("abcdef", "abcdef"), 1.0);
  // Matching n-grams: 5 of 6 characters; ab bc cd of 5 pairs; abc bcd of 4 triples; abcd of 3.
  EXPECT_NEAR(Bleu4("abcdxf", "abcdef"), Mean(5 / 6.0, 3 / 5.0, 2 / 4.0, 1 / 3.0), 1e-15);
  // The label has two a and one aa, so no more matches count.
  EXPECT_NEAR(Bleu4("aaaaa", "aabbb"), Mean(2 / 5.0, 1 / 4.0, 1 / 6.0, 1 / 8.0), 1e-15);
}

TEST(BleuTest, APrecisionOfZeroIsHalvedEachTime) {
  // Matching n-grams: one of 3 characters; none of 2 pairs, which gives 1 / (2 x 2); no triple of
  // 1: 1 / 4; none of 0: 1 / 8.
  EXPECT_NEAR(Bleu4("axy", "abc"), Mean(1 / 3.0, 1 / 4.0, 1 / 4.0, 1 / 8.0), 1e-15);
  EXPECT_NEAR(Bleu4("a", "a"), Mean(1.0, 1 / 2.0, 1 / 4.0, 1 / 8.0), 1e-15);
}

TEST(BleuTest, AShorterPredictionIsPenalised) {
  EXPECT_NEAR(Bleu4("abcd", "abcdef"), std::exp(1.0 - 6 / 4.0), 1e-15);
  EXPECT_NEAR(Bleu4("abcdef", "abcd"), Mean(4 / 6.0, 3 / 5.0, 2 / 4.0, 1 / 3.0), 1e-15);
}

TEST(BleuTest, IsZeroWhereNoCharacterIsInBoth) {
  EXPECT_EQ(Bleu4("", ""), 0.0);
  EXPECT_EQ(Bleu4("", "abc"), 0.0);
  EXPECT_EQ(Bleu4("abc", ""), 0.0);
  EXPECT_EQ(Bleu4("abc", "xyz"), 0.0);
}

TEST(BleuTest, CountsCodePoints) {
  EXPECT_DOUBLE_EQ(Bleu4("春眠不觉", "春眠不觉"), 1.0);
  EXPECT_NEAR(Bleu4("春眠", "春晓"), Mean(1 / 2.0, 1 / 2.0, 1 / 4.0, 1 / 8.0), 1e-15);
  EXPECT_NEAR(Bleu4("\xE6\x98", "\xEF\xBF\xBD"), Bleu4("a", "a"), 1e-15);  // truncated: U+FFFD
}

}  // namespace
}  // namespace moonring::data
