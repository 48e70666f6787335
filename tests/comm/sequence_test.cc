// A packed stream's three parts: lengths, positions and targets, none of them made from another.

#include "comm/sequence.h"

#include <set>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

at::Tensor Longs(const Numbers& numbers) { return at::tensor(numbers, at::kLong); }

Numbers ToVector(const at::Tensor& tensor) {
  const at::Tensor row = tensor.contiguous();
  return Numbers(row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel());
}

Sequence Make(const Numbers& lengths, const Numbers& ids, const Numbers& positions,
              const Numbers& targets) {
  return {lengths, Longs(ids), Longs(positions), Longs(targets), {}};
}

TEST(Sequence, LabelsAreShiftedInsideDocuments) {
  EXPECT_THAT(ToVector(ShiftLabels(Longs({1, 2, 3, 4, 5}), {2, 0, 3})),
              ElementsAre(2, kIgnore, 4, 5, kIgnore));
  EXPECT_THAT(ToVector(ShiftLabels(Longs({}), {})), ElementsAre());
  EXPECT_THROW(ShiftLabels(Longs({1, 2}), {3}), c10::Error);
}

TEST(Sequence, PositionsBeginInEachDocument) {
  EXPECT_THAT(ToVector(PositionsInDocuments(Numbers{2, 0, 3})), ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(ToVector(PositionsInDocuments(Numbers{})), ElementsAre());
}

TEST(Sequence, LengthsOfTokensAreTheDocumentsWhateverPositionsSay) {
  const Numbers ids = {1, 2, 3, 4, 5, 6};
  // The first document's positions restart, as LLaMA-Factory's packing makes them; the last one's
  // begin late.
  const Sequence sequence = Make({4, 0, 2}, ids, {0, 1, 0, 1, 7, 8}, ids);
  EXPECT_THAT(ToVector(LengthsOfTokens(sequence)), ElementsAre(4, 4, 4, 4, 2, 2));
  EXPECT_EQ(LengthsOfTokens(Make({}, {}, {}, {})).numel(), 0);
}

TEST(Sequence, AChecksumTellsEveryPartApart) {
  const Numbers ids = {1, 2, 3}, positions = {0, 1, 2}, targets = {2, 3, kIgnore};
  const Sequence sequence = Make({3}, ids, positions, targets);
  const std::set<uint32_t> sums = {
      Checksum(sequence),
      Checksum(sequence, 0, 3),
      Checksum(sequence, 0, 2),
      Checksum(sequence, 1),
      Checksum(sequence, Checksum(sequence)),
      Checksum(Make({1, 2}, ids, positions, targets)),
      Checksum(Make({3}, {1, 2, 4}, positions, targets)),
      Checksum(Make({3}, ids, {0, 1, 0}, targets)),
      Checksum(Make({3}, ids, positions, {2, kIgnore, kIgnore})),
  };
  EXPECT_EQ(sums.size(), 9);
  EXPECT_EQ(Checksum(sequence), Checksum(Make({3}, ids, positions, targets)));
}

// Else what ranks read before an empty micro-batch would not be compared.
TEST(Sequence, AnEmptyStreamGoesOnFromTheChecksumBefore) {
  const Sequence nothing = Make({}, {}, {}, {});
  EXPECT_NE(Checksum(nothing, 17), Checksum(nothing, 18));
  EXPECT_NE(Checksum(nothing), Checksum(nothing, Checksum(nothing)));
  // Numbers that go from the end of one row to the beginning of the next.
  EXPECT_NE(Checksum(Make({1}, {2}, {3}, {4})), Checksum(Make({1, 2}, {3}, {4}, {})));
}

TEST(Sequence, IsValidatedWithBothValues) {
  const Numbers three = {1, 2, 3};
  EXPECT_OK(Validate(Make({1, 2}, three, three, three)));
  EXPECT_THAT(Validate(Make({1, -2}, three, three, three)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("document 1 has -2 tokens")));
  EXPECT_THAT(Validate(Make({2}, three, three, three)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("ids: wanted int64 [2] on the host, got Long [3] on cpu")));
}

}  // namespace
}  // namespace moonring::comm
