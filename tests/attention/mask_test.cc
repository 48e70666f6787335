// Document masks: which tokens may attend to which, and invalid masks.
#include "attention/kernels/mask.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(MaskTest, AncestorsStandBeforeADocumentInTheirOrder) {
  ASSERT_OK_AND_ASSIGN(const auto mask,
                       Mask::Create({10, 4, 6, 5}, {{0, 2, 3}, {}, {2, 3, 5}, {}}));
  ASSERT_EQ(mask->before(0).size(), 2u);  // document 2 is the parent of 0, and 3 the parent of 2
  EXPECT_EQ(mask->before(0)[0].document, 3);
  EXPECT_EQ(mask->before(0)[0].tokens, 5);
  EXPECT_EQ(mask->before(0)[1].document, 2);
  EXPECT_EQ(mask->before(0)[1].place, 5);
  EXPECT_EQ(mask->place(0), 8);
  EXPECT_EQ(mask->place(1), 0);
  for (const int64_t d : {0, 2, 3}) EXPECT_EQ(mask->family(d), 3);
  EXPECT_EQ(mask->family(1), 1);
  EXPECT_EQ(mask->prefix(2), 2);
}

TEST(MaskTest, AreaIsThePairsSeen) {
  const std::vector<int64_t> lengths = {10, 4, 0, 7};
  const std::vector<DocumentMask> documents = {{3}, {4, 3, 5}, {}, {0, 0, 9}};
  ASSERT_OK_AND_ASSIGN(const auto mask, Mask::Create(lengths, documents));
  const at::Tensor seen =
      testing::HiddenPairs(lengths, documents, /*window=*/0).logical_not().sum(1);
  int64_t row = 0;
  for (int64_t d = 0; d < 4; ++d) {
    for (int64_t t = 0; t < lengths[d]; ++t, ++row)
      EXPECT_EQ(mask->Area(d, t, t + 1), seen[row].item<double>()) << d << " " << t;
    EXPECT_EQ(mask->Area(d, 0, lengths[d]),
              mask->Area(d, 0, lengths[d] / 2) + mask->Area(d, lengths[d] / 2, lengths[d]));
  }
}

TEST(MaskTest, LayersTakeMasksInTurnAndTheirWindows) {
  ASSERT_OK_AND_ASSIGN(const auto plain, Mask::Create({5}, {}));
  ASSERT_OK_AND_ASSIGN(const auto narrow, Mask::Create({5}, {}, 2));
  ASSERT_OK_AND_ASSIGN(const auto prefix, Mask::Create({5}, {{3}}, 0));
  const LayerMasks masks = {plain, narrow, prefix};
  EXPECT_EQ(MaskOf(masks, 4), nullptr) << "a window alone is a matter of the layer's rule";
  EXPECT_EQ(MaskOf(masks, 5), prefix.get());
  EXPECT_EQ(WindowOf(masks, 3, 7), 7);
  EXPECT_EQ(WindowOf(masks, 4, 7), 2);
  EXPECT_EQ(WindowOf(masks, 5, 7), 0);
  EXPECT_EQ(MaskOf({}, 5), nullptr);
  EXPECT_EQ(WindowOf({}, 5, 7), 7);
}

TEST(MaskTest, ChecksumsTellMasksApart) {
  std::vector<uint32_t> sums;
  for (const std::vector<DocumentMask>& documents : std::vector<std::vector<DocumentMask>>{
           {{}, {}}, {{1}, {}}, {{}, {1}}, {{}, {0, 0, 1}}, {{}, {0, 0, 2}}}) {
    for (const std::optional<int64_t> window : {std::optional<int64_t>(), {0}, {3}}) {
      ASSERT_OK_AND_ASSIGN(const auto mask, Mask::Create({4, 4}, documents, window));
      EXPECT_THAT(sums, ::testing::Not(::testing::Contains(mask->Checksum())));
      sums.push_back(mask->Checksum());
    }
  }
}

TEST(MaskTest, RefusesInvalidInput) {
  struct Wrong {
    std::vector<DocumentMask> documents;
    std::optional<int64_t> window;
    std::string words;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {{{1}}, {}, "mask: 1 documents, the stream has 3"},
           {{{}, {6}, {}}, {}, "document 1 of 0..2: a prefix of 6 tokens, it has 5"},
           {{{-1}, {}, {}}, {}, "document 0 of 0..2: a prefix of -1 tokens"},
           {{{}, {0, 3, 1}, {}}, {}, "document 1 of 0..2: parent 3, expected another one, or -1"},
           {{{}, {0, 1, 1}, {}}, {}, "document 1 of 0..2: parent 1"},
           {{{}, {0, -2, 1}, {}}, {}, "document 1 of 0..2: parent -2"},
           {{{}, {0, -1, 1}, {}}, {}, "document 1 of 0..2: 1 tokens of a parent, and no parent"},
           {{{}, {0, 0, 5}, {}},
            {},
            "document 1 of 0..2: 5 tokens of its parent, document 0, which has 4"},
           {{{0, 1, 0}, {0, 2, 0}, {0, 1, 0}},
            {},
            "document 0 of 0..2: its parents go in a circle"},
           {{}, -1, "a window of -1 tokens"}}) {
    EXPECT_THAT(Mask::Create({4, 5, 6}, wrong.documents, wrong.window).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(wrong.words)));
  }
}

}  // namespace
}  // namespace moonring::attention
