#include "comm/sequence.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

at::Tensor Longs(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

std::vector<int64_t> ValuesOf(const at::Tensor& t) {
  const at::Tensor row = t.contiguous();
  return {row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel()};
}

// A stream with documents of 3, 0, 1 and 2 tokens.
Sequence Small() {
  Sequence sequence{.lengths = {3, 0, 1, 2}, .ids_T = Longs({5, 6, 7, 8, 9, 10})};
  sequence.positions_T = PositionsInDocuments(sequence.lengths);
  sequence.targets_T = ShiftLabels(sequence.ids_T, sequence.lengths);
  return sequence;
}

TEST(SequenceTest, LabelsAreShiftedInsideEachDocument) {
  EXPECT_THAT(ValuesOf(Small().targets_T), ElementsAre(6, 7, kIgnore, kIgnore, 10, kIgnore));
  // Ignored labels stay ignored; the label of a document's first token is not predicted.
  EXPECT_THAT(ValuesOf(ShiftLabels(Longs({1, kIgnore, 3, 4, 5}), {3, 2})),
              ElementsAre(kIgnore, 3, kIgnore, 5, kIgnore));
  EXPECT_THAT(ValuesOf(ShiftLabels(Longs({}), {})), IsEmpty());
  EXPECT_THAT(ValuesOf(ShiftLabels(Longs({}), {0, 0})), IsEmpty());
  EXPECT_THAT(ValuesOf(ShiftLabels(Longs({4}), {1})), ElementsAre(kIgnore));
  EXPECT_THROW(ShiftLabels(Longs({1, 2, 3}), {2}), c10::Error);
  EXPECT_THROW(ShiftLabels(Longs({1, 2}).view({1, 2}), {2}), c10::Error);
}

// The targets and positions of a document do not depend on the other documents or on their order.
TEST(SequenceTest, ADocumentsTargetsAndPositionsAreItsOwn) {
  const std::vector<int64_t> lengths = {1, 5, 0, 130, 2};
  int64_t tokens = 0;
  for (const int64_t length : lengths) tokens += length;
  const at::Tensor labels = at::arange(100, 100 + tokens, at::kLong);
  const at::Tensor targets = ShiftLabels(labels, lengths),
                   positions = PositionsInDocuments(lengths);
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const std::vector<int64_t> alone =
        ValuesOf(ShiftLabels(labels.narrow(0, begin, length), {length}));
    EXPECT_THAT(ValuesOf(targets.narrow(0, begin, length)), ElementsAreArray(alone));
    EXPECT_TRUE(positions.narrow(0, begin, length).equal(at::arange(length, at::kLong)));
    begin += length;
  }
}

TEST(SequenceTest, PositionsCountFromZeroInEachDocument) {
  EXPECT_THAT(ValuesOf(Small().positions_T), ElementsAre(0, 1, 2, 0, 0, 1));
  EXPECT_THAT(ValuesOf(PositionsInDocuments({})), IsEmpty());
  EXPECT_EQ(PositionsInDocuments({}).scalar_type(), at::kLong);
}

TEST(SequenceTest, APromptEndsWithTheFirstTokenThatPredicts) {
  const at::Tensor labels_T = at::tensor({-100, -100, 7, 8, -100, 5, 6, -100, -100, 9}, at::kLong);
  Sequence sequence{.lengths = {4, 0, 3, 2, 1}};
  sequence.targets_T = ShiftLabels(labels_T, sequence.lengths);
  EXPECT_EQ(PromptLengths(sequence), (std::vector<int64_t>{2, 0, 1, 2, 1}));
}

TEST(SequenceTest, EachTokenKnowsItsDocumentsLength) {
  EXPECT_THAT(ValuesOf(LengthsOfTokens(Small())), ElementsAre(3, 3, 3, 1, 2, 2));
  // Targets do not depend on positions, which restart inside one document in a packed row of
  // LLaMA-Factory.
  Sequence restarting = Small();
  restarting.positions_T = Longs({0, 0, 1, 7, 0, 0});
  EXPECT_THAT(ValuesOf(LengthsOfTokens(restarting)), ElementsAre(3, 3, 3, 1, 2, 2));
}

// A stream in which a prompt of three tokens comes after the first of its two answers, and a
// further turn continues the other answer.
Sequence Shared() {
  Sequence sequence{.lengths = {2, 3, 1, 2}, .ids_T = at::arange(8, at::kLong)};
  sequence.positions_T = PositionsInDocuments(sequence.lengths);
  sequence.targets_T = Longs({7, kIgnore, kIgnore, kIgnore, kIgnore, kIgnore, 9, kIgnore});
  sequence.parents = {{1, 3}, {}, {1, 3}, {2, 1}};
  return sequence;
}

TEST(SequenceTest, DocumentsMayContinueOthers) {
  EXPECT_OK(Validate(Shared()));
  EXPECT_THAT(OwnDocuments(Shared()), ElementsAre(0, 3));
  EXPECT_THAT(OwnDocuments(Small()), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ValuesOf(LengthsOfTokens(Shared())), ElementsAre(5, 5, 3, 3, 3, 4, 6, 6));
  const auto refused = [](std::vector<Parent> parents, const char* words) {
    Sequence sequence = Shared();
    sequence.parents = std::move(parents);
    EXPECT_THAT(Validate(sequence), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  refused({{1, 3}}, "parents of 1 documents for 4");
  refused({{4, 0}, {}, {}, {}}, "document 0 of 0..3: parent 4, expected another document");
  refused({{0, 1}, {}, {}, {}}, "document 0 of 0..3: parent 0, expected another document");
  refused({{-2, 0}, {}, {}, {}}, "document 0 of 0..3: parent -2, expected another document");
  refused({{1, 4}, {}, {}, {}}, "document 0 of 0..3: 4 tokens of its parent, expected 0 to 3");
  refused({{-1, 1}, {}, {}, {}}, "document 0 of 0..3: 1 tokens of its parent, expected 0 to 0");
  refused({{}, {2, 1}, {1, 3}, {}}, "document 1 of 0..3: its parents go in a circle");
  refused({{}, {3, 1}, {}, {}},
          "document 3 of 0..3: it has targets, but is the parent of other documents");
}

TEST(SequenceTest, TheChecksumSeesParents) {
  std::set<uint32_t> sums;
  Sequence sequence = Shared();
  for (const auto& parents : std::vector<std::vector<Parent>>{{},
                                                              {{}, {}, {}, {}},
                                                              {{1, 3}, {}, {}, {}},
                                                              {{1, 2}, {}, {}, {}},
                                                              {{}, {}, {1, 3}, {}}}) {
    sequence.parents = parents;
    EXPECT_TRUE(sums.insert(Checksum(sequence)).second);
  }
}

// The checksum of an empty stream includes the checksum before it. Otherwise the data that ranks
// read before an empty micro-batch would not be compared.
TEST(SequenceTest, AnEmptyStreamKeepsTheChecksum) {
  const Sequence empty{.ids_T = Longs({}), .positions_T = Longs({}), .targets_T = Longs({})};
  EXPECT_NE(Checksum(empty, 17), Checksum(empty, 18));
  EXPECT_NE(Checksum(empty), Checksum(empty, Checksum(empty)));
  // Sequences that differ only in which field a number at the border belongs to.
  EXPECT_NE(Checksum({.lengths = {1},
                      .ids_T = Longs({2}),
                      .positions_T = Longs({3}),
                      .targets_T = Longs({4})}),
            Checksum({.lengths = {1, 2},
                      .ids_T = Longs({3}),
                      .positions_T = Longs({4}),
                      .targets_T = Longs({})}));
}

// Every field of a sequence affects its checksum, so ranks with different sequences have different
// checksums.
TEST(SequenceTest, TheChecksumSeesEverything) {
  const Sequence sequence = Small();
  std::set<uint32_t> sums = {Checksum(sequence)};
  const auto add = [&](const Sequence& other, const char* what) {
    EXPECT_TRUE(sums.insert(Checksum(other)).second) << what;
  };
  EXPECT_EQ(Checksum(Small()), Checksum(sequence));
  for (at::Tensor Sequence::*row :
       {&Sequence::ids_T, &Sequence::positions_T, &Sequence::targets_T}) {
    for (const int64_t place : {0, 5}) {
      Sequence other = sequence;
      other.*row = (sequence.*row).clone();
      (other.*row)[place] += 1;
      add(other, "a number");
    }
  }
  Sequence other = sequence;
  other.lengths = {3, 1, 2};
  add(other, "an empty document");
  other.lengths = {3, 1, 0, 2};
  add(other, "another order of lengths");
  other = sequence;
  other.ids_T = sequence.ids_T.flip(0);
  add(other, "another order of ids");
  EXPECT_NE(Checksum(sequence, 0, /*labels=*/3), Checksum(sequence, 0, /*labels=*/2));
  EXPECT_NE(Checksum(sequence, 1), Checksum(sequence, 2)) << "it continues from the value before";
  // A strided view has the checksum of its values.
  other = sequence;
  other.ids_T = at::stack({sequence.ids_T, sequence.ids_T}, 1).select(1, 0);
  EXPECT_EQ(Checksum(other), Checksum(sequence));
}

TEST(SequenceTest, RefusesInvalidSequences) {
  EXPECT_OK(Validate(Small()));
  const Sequence empty{.ids_T = Longs({}), .positions_T = Longs({}), .targets_T = Longs({})};
  EXPECT_OK(Validate(empty));
  const auto expect_refused = [](const auto& change, const std::string& words) {
    Sequence sequence = Small();
    change(sequence);
    EXPECT_THAT(Validate(sequence), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  expect_refused([](Sequence& s) { s.lengths[2] = -1; }, "document 2 has -1 tokens");
  expect_refused([](Sequence& s) { s.lengths[0] = 2; }, "ids: expected int64 [5] on the host");
  expect_refused([](Sequence& s) { s.positions_T = s.positions_T.to(at::kInt); },
                 "positions: expected int64 [6] on the host, got Int [6]");
  expect_refused(
      [](Sequence& s) {
        s.targets_T = s.targets_T.view({2, 3});
      },
      "targets: expected int64 [6]");
  expect_refused([](Sequence& s) { s.targets_T = at::Tensor(); },
                 "targets: expected int64 [6] on the host, got nothing");
  expect_refused([](Sequence& s) { s.identity_T = Longs({1}); }, "identity: expected int64 [6]");
}

}  // namespace
}  // namespace moonring::comm
