// numpy's generator and the datasets library's train_test_split: the expected values are from numpy
// 2.4.6 and datasets 4.0.0.
#include "data/mixing/dataset_split.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/mixing/numpy_random.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A hash of a list. In Python: for x in list: h = (h * 1099511628211 + x + 1) % 2**64.
uint64_t Digest(const std::vector<int64_t>& list) {
  uint64_t h = 0;
  for (const int64_t x : list) h = h * 1099511628211ull + static_cast<uint64_t>(x) + 1;
  return h;
}

// The random bits equal numpy.random.default_rng(seed).bit_generator.random_raw().
TEST(NumpyRandomTest, DrawsNumpysBits) {
  NumpyRandom random(42);
  EXPECT_EQ(random.Next64(), 14276969152011380360ull);
  EXPECT_EQ(random.Next64(), 8095878257575067585ull);
  EXPECT_EQ(random.Next32(), static_cast<uint32_t>(15838336090824644132ull));
  EXPECT_EQ(random.Next32(), static_cast<uint32_t>(15838336090824644132ull >> 32));
  NumpyRandom large((uint64_t{1} << 63) + 11);  // a seed of two words
  EXPECT_EQ(large.Next64(), 3134404187912038416ull);
  EXPECT_EQ(large.Next64(), 14898973193536483131ull);
}

TEST(NumpyRandomTest, PermutesAsNumpy) {
  EXPECT_THAT(NumpyRandom(42).Permutation(10), ElementsAre(5, 6, 0, 7, 3, 2, 4, 9, 1, 8));
  EXPECT_THAT(NumpyRandom(0).Permutation(5), ElementsAre(2, 4, 3, 0, 1));
  EXPECT_THAT(NumpyRandom((uint64_t{1} << 32) + 5).Permutation(8),
              ElementsAre(4, 2, 5, 0, 7, 6, 3, 1));
  EXPECT_THAT(NumpyRandom(1).Permutation(1), ElementsAre(0));
  EXPECT_THAT(NumpyRandom(1).Permutation(0), ElementsAre());
  EXPECT_EQ(Digest(NumpyRandom(42).Permutation(1000)), 17967772281488453026ull);
  EXPECT_EQ(Digest(NumpyRandom(7).Permutation(100000)), 4274799967723027408ull);
  EXPECT_EQ(Digest(NumpyRandom(123456789012345).Permutation(4097)), 16375219259351763657ull);
  EXPECT_THROW(NumpyRandom(1).Permutation(-1), c10::Error);
}

// The split equals Dataset.train_test_split(test_size, seed) of rows 0 ... 10.
TEST(DatasetSplitTest, SplitsAsDatasets) {
  for (const double val_size : {0.2, 3.0, 3.9}) {  // ceil(0.2 x 11) = 3
    ASSERT_OK_AND_ASSIGN(const DatasetSplit split, SplitRows(11, val_size, 42));
    EXPECT_THAT(split.train, ElementsAre(10, 3, 5, 2, 4, 9, 1, 8));
    EXPECT_THAT(split.held_out, ElementsAre(6, 7, 0));
  }
  ASSERT_OK_AND_ASSIGN(const DatasetSplit one, SplitRows(11, 0.01, 5));
  EXPECT_THAT(one.train, ElementsAre(7, 1, 3, 2, 4, 6, 0, 9, 5, 8));
  EXPECT_THAT(one.held_out, ElementsAre(10));
}

TEST(DatasetSplitTest, RefusesASplitOfNothing) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(
      SplitRows(11, 0.95, 0),
      StatusIs(invalid, "val_size 0.95 holds out 11 of 11 rows and leaves none to train on"));
  EXPECT_THAT(SplitRows(11, 11, 0), StatusIs(invalid, HasSubstr("holds out 11 of 11")));
  for (const double val_size : {1.0, 0.0, -0.5}) {
    EXPECT_THAT(SplitRows(11, val_size, 0),
                StatusIs(invalid, HasSubstr("val_size must be a part of the rows between 0 and 1, "
                                            "or a number of rows above 1")));
  }
  EXPECT_THAT(
      SplitRows(11, 0.5, -1),
      StatusIs(invalid, HasSubstr("seed must be 0 or more where val_size is given, got -1")));
}

TEST(DatasetSplitTest, ATinyShareIsNoSplit) {
  EXPECT_FALSE(HoldsOut(0));
  EXPECT_FALSE(HoldsOut(1e-6));
  EXPECT_TRUE(HoldsOut(2e-6));
  EXPECT_TRUE(HoldsOut(100));
  EXPECT_TRUE(HoldsOut(-1)) << "SplitRows says what is wrong with it";
}

}  // namespace
}  // namespace moonring::data
