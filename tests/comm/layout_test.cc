#include "comm/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "tests/testing/all_close.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {

void PrintTo(const Span& span, std::ostream* out) {
  *out << "document " << span.document << " [" << span.begin << ", " << span.end << ")";
}

namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Ownership kAll[] = {Ownership::kContiguous, Ownership::kZigzag,
                              Ownership::kWholeDocuments};

// The number of (query, key) pairs of the rows [begin, end) in a causal document: row t attends to
// t + 1 keys.
double CausalArea(int64_t, int64_t begin, int64_t end) {
  return 0.5 * (static_cast<double>(end) * (end + 1) - static_cast<double>(begin) * (begin + 1));
}

std::shared_ptr<const Layout> Make(std::vector<int64_t> lengths, int ranks, Ownership ownership,
                                   SpanCost cost = nullptr) {
  auto layout = Layout::Create(std::move(lengths), {ranks, ownership}, std::move(cost));
  EXPECT_OK(layout);
  return layout.ok() ? *layout : nullptr;
}

std::vector<double> Loads(const Layout& layout, const SpanCost& cost) {
  std::vector<double> loads(layout.ranks(), 0.0);
  for (int r = 0; r < layout.ranks(); ++r) {
    for (const Span& span : layout.spans(r)) loads[r] += cost(span.document, span.begin, span.end);
  }
  return loads;
}

// The greatest load divided by the mean load: 1 is perfect.
double Imbalance(const Layout& layout, const SpanCost& cost) {
  const std::vector<double> loads = Loads(layout, cost);
  return *std::max_element(loads.begin(), loads.end()) * layout.ranks() /
         std::accumulate(loads.begin(), loads.end(), 0.0);
}

void ExpectIsAPartition(const Layout& layout) {
  at::Tensor times_owned = at::zeros({layout.tokens()}, at::kLong);
  int64_t* count = times_owned.mutable_data_ptr<int64_t>();
  for (int r = 0; r < layout.ranks(); ++r) {
    int64_t tokens = 0;
    const Span* before = nullptr;
    for (const Span& span : layout.spans(r)) {
      const int64_t length = layout.lengths().at(span.document), block = BlockSize(length);
      ASSERT_LT(span.begin, span.end);
      ASSERT_EQ(span.begin % block, 0) << "rank " << r;
      ASSERT_TRUE(span.end % block == 0 || span.end == length)
          << "rank " << r << " span " << span.begin << ".." << span.end << " of " << length;
      if (before != nullptr) {
        ASSERT_TRUE(before->document < span.document ||
                    (before->document == span.document && before->end < span.begin))
            << "unsorted or unmerged";
      }
      before = &span;
      tokens += span.tokens();
      for (int64_t t = span.begin; t < span.end; ++t)
        ++count[layout.document_offset(span.document) + t];
    }
    ASSERT_EQ(tokens, layout.local_tokens(r));
  }
  ASSERT_TRUE(times_owned.eq(1).all().item<bool>());
}

void ExpectCutAndJoinInvert(const Layout& layout) {
  const at::Tensor stream = at::arange(3 * layout.tokens(), at::kFloat).view({layout.tokens(), 3});
  std::vector<at::Tensor> locals;
  for (int r = 0; r < layout.ranks(); ++r) {
    locals.push_back(layout.Cut(stream, r));
    ASSERT_EQ(locals.back().size(0), layout.local_tokens(r));
    ASSERT_TRUE(BitEqual(locals.back(), stream.index_select(0, layout.Index(r))));
  }
  ASSERT_TRUE(BitEqual(layout.Join(locals), stream));
}

std::vector<int64_t> RandomLengths(std::mt19937& random) {
  // Random lengths, from many tiny documents to one long one. The order of magnitude of a length is
  // drawn first.
  const int documents = 1 + static_cast<int>(random() % (random() % 4 == 0 ? 60 : 6));
  std::vector<int64_t> lengths(documents);
  for (int64_t& length : lengths) length = 1 + random() % (1 << (random() % 13));
  return lengths;
}

TEST(LayoutTest, AnyLengthsOnAnyRanksArePartitionedOnTheGrid) {
  std::mt19937 random(7);
  for (int round = 0; round < 250; ++round) {
    const std::vector<int64_t> lengths = RandomLengths(random);
    const int ranks = 1 + static_cast<int>(random() % 16);
    for (const Ownership ownership : kAll) {
      for (const SpanCost& cost : {SpanCost(), SpanCost(CausalArea)}) {
        SCOPED_TRACE(c10::str(OwnershipName(ownership).data(), " over ", ranks, " ranks, round ",
                              round, ", lengths ", lengths));
        const auto layout = Make(lengths, ranks, ownership, cost);
        ASSERT_NO_FATAL_FAILURE(ExpectIsAPartition(*layout));
        ASSERT_NO_FATAL_FAILURE(ExpectCutAndJoinInvert(*layout));
        const auto again = Make(lengths, ranks, ownership, cost);
        for (int r = 0; r < ranks; ++r) ASSERT_EQ(again->spans(r), layout->spans(r));
      }
    }
  }
}

TEST(LayoutTest, OneRankOwnsTheStreamInItsOrder) {
  for (const Ownership ownership : kAll) {
    const auto layout = Make({5, 1, 3000, 64}, 1, ownership);
    EXPECT_THAT(layout->spans(0),
                ElementsAre(Span{0, 0, 5}, Span{1, 0, 1}, Span{2, 0, 3000}, Span{3, 0, 64}));
    EXPECT_TRUE(BitEqual(layout->Index(0), at::arange(3070, at::kLong)));
  }
}

TEST(LayoutTest, BlocksGrowWithTheDocument) {
  for (const auto& [length, block] : std::vector<std::pair<int64_t, int64_t>>{{0, 64},
                                                                              {1, 64},
                                                                              {64, 64},
                                                                              {8191, 64},
                                                                              {8192, 128},
                                                                              {16383, 128},
                                                                              {16384, 256},
                                                                              {1 << 20, 256}}) {
    EXPECT_EQ(BlockSize(length), block) << length;
  }
}

TEST(LayoutTest, ContiguousPartsAreEqualToABlock) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::vector<int64_t> lengths = RandomLengths(random);
    const int ranks = 1 + static_cast<int>(random() % 16);
    const auto layout = Make(lengths, ranks, Ownership::kContiguous);
    int64_t block = 0, row = 0;
    for (const int64_t length : lengths) block = std::max(block, BlockSize(length));
    for (int r = 0; r < ranks; ++r) {
      // Each boundary differs from the ideal one by at most half a block, and ideal boundaries are
      // rounded to whole tokens.
      EXPECT_LE(std::abs(layout->local_tokens(r) - static_cast<double>(layout->tokens()) / ranks),
                block + 1)
          << "rank " << r << " of " << ranks << ", lengths " << lengths;
      EXPECT_TRUE(
          BitEqual(layout->Index(r), at::arange(row, row + layout->local_tokens(r), at::kLong)));
      row += layout->local_tokens(r);
    }
  }
  EXPECT_THAT(Make({1000}, 4, Ownership::kContiguous)->spans(1), ElementsAre(Span{0, 256, 512}));
  EXPECT_THAT(Make({100, 100}, 2, Ownership::kContiguous)->spans(1), ElementsAre(Span{1, 0, 100}));
}

TEST(LayoutTest, ContiguousLeavesRanksWithoutRowsWhereBlocksRunOut) {
  const auto layout =
      Make({70}, 4, Ownership::kContiguous);  // ideal boundaries: 17, 35, 52; possible: 0, 64, 70
  EXPECT_THAT((std::vector<int64_t>{layout->local_tokens(0), layout->local_tokens(1),
                                    layout->local_tokens(2), layout->local_tokens(3)}),
              ElementsAre(0, 64, 0, 6));
  EXPECT_EQ(layout->Cut(at::zeros({70, 2}), 0).size(0), 0);
}

TEST(LayoutTest, ZigzagGivesHeadAndTail) {
  // 1024 tokens are 16 blocks of 64: 8 chunks of two blocks over 4 ranks.
  const auto layout = Make({1024}, 4, Ownership::kZigzag, CausalArea);
  EXPECT_THAT(layout->spans(0), ElementsAre(Span{0, 0, 128}, Span{0, 896, 1024}));
  EXPECT_THAT(layout->spans(1), ElementsAre(Span{0, 128, 256}, Span{0, 768, 896}));
  EXPECT_THAT(layout->spans(2), ElementsAre(Span{0, 256, 384}, Span{0, 640, 768}));
  EXPECT_THAT(layout->spans(3), ElementsAre(Span{0, 384, 640}));
  EXPECT_DOUBLE_EQ(Imbalance(*layout, CausalArea), 1.0);
}

TEST(LayoutTest, ZigzagDealsTheFrontOutWhereChunksAreUneven) {
  // 17 blocks over 4 ranks: giving one rank five whole blocks would be an imbalance of 1.18.
  const auto layout = Make({17 * 64}, 4, Ownership::kZigzag, CausalArea);
  EXPECT_LT(Imbalance(*layout, CausalArea), 1.02);
  for (int r = 0; r < 4; ++r) EXPECT_LE(layout->spans(r).size(), 4u);
}

TEST(LayoutTest, ZigzagIsBalancedForDocumentsOfAnyLength) {
  std::mt19937 random(5);
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (int round = 0; round < 100; ++round) {
      const int64_t length = 4096 + random() % (round < 50 ? 12288 : 200000);
      const auto layout = Make({length}, ranks, Ownership::kZigzag, CausalArea);
      EXPECT_LE(Imbalance(*layout, CausalArea), ranks <= 8 ? 1.02 : 1.1)
          << length << " over " << ranks;
      for (int r = 0; r < ranks; ++r) {
        EXPECT_NEAR(layout->local_tokens(r), static_cast<double>(length) / ranks,
                    0.2 * length / ranks + 2 * BlockSize(length))
            << length << " over " << ranks;
      }
    }
  }
  // Lengths that are not multiples of the block size, over up to 4 ranks.
  for (int64_t length = 2048; length < 4096; length += 61)
    EXPECT_LE(Imbalance(*Make({length}, 4, Ownership::kZigzag, CausalArea), CausalArea), 1.02)
        << length;
}

TEST(LayoutTest, ZigzagKeepsShortDocumentsWholeWhereThatBalances) {
  const auto layout = Make(std::vector<int64_t>(32, 300), 8, Ownership::kZigzag, CausalArea);
  for (int r = 0; r < 8; ++r) {
    ASSERT_EQ(layout->spans(r).size(), 4);
    for (const Span& span : layout->spans(r)) EXPECT_EQ(span.tokens(), 300);
  }
}

TEST(LayoutTest, ZigzagSpreadsAShortDocumentThatWouldOutweighTheRest) {
  // A single document of 10 blocks on 8 ranks: the blocks form five pairs. If one rank had all of
  // them, its load would be 8 times the mean.
  const auto alone = Make({640}, 8, Ownership::kZigzag, CausalArea);
  EXPECT_NEAR(Imbalance(*alone, CausalArea), 8.0 / 5, 1e-2);
  EXPECT_EQ(alone->local_tokens(7), 0);
  // Small documents in addition fill the other ranks.
  std::vector<int64_t> lengths(120, 60);
  lengths.push_back(640);
  const auto packed = Make(lengths, 8, Ownership::kZigzag);
  EXPECT_LT(Imbalance(*packed, [](int64_t, int64_t begin,
                                  int64_t end) { return static_cast<double>(end - begin); }),
            1.05);
}

TEST(LayoutTest, ZigzagIsBalancedForMixedPacks) {
  std::mt19937 random(3);
  double worst = 0, sum = 0;
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    // 32768 tokens of documents with log-uniform lengths from 32 to 8191 over 4 ranks.
    std::vector<int64_t> lengths;
    for (int64_t left = 32768; left > 0; left -= lengths.back())
      lengths.push_back(std::min<int64_t>(
          left, (1 << (5 + random() % 8)) + random() % 4096 % (1 << (5 + random() % 8))));
    const double imbalance =
        Imbalance(*Make(lengths, 4, Ownership::kZigzag, CausalArea), CausalArea);
    worst = std::max(worst, imbalance);
    sum += imbalance;
  }
  RecordProperty("mean_imbalance", std::to_string(sum / kRounds));
  RecordProperty("worst_imbalance", std::to_string(worst));
  EXPECT_LT(sum / kRounds, 1.005);
  EXPECT_LT(worst, 1.02);
}

TEST(LayoutTest, ZigzagIsBalancedForLogNormalLengths) {
  std::mt19937 random(17);
  std::lognormal_distribution<double> lengths_of(6.0, 1.2);
  for (const int ranks : {2, 4, 8, 16}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<int64_t> lengths(200);
      for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(lengths_of(random));
      const auto layout = Make(lengths, ranks, Ownership::kZigzag, CausalArea);
      EXPECT_LE(Imbalance(*layout, CausalArea), 1.05) << ranks << " ranks, round " << round;
    }
  }
}

TEST(LayoutTest, WholeDocumentsGoToTheLeastLoadedTheCostliestFirst) {
  const auto layout = Make({10, 70, 30, 40, 20}, 2, Ownership::kWholeDocuments);
  // Longest first, each to the rank with the fewest tokens: 70 and 40 go to different ranks, 30
  // joins 40, then both have 70 tokens: 20 goes to the lower rank, and 10 to the other.
  EXPECT_THAT(layout->spans(0), ElementsAre(Span{1, 0, 70}, Span{4, 0, 20}));
  EXPECT_THAT(layout->spans(1), ElementsAre(Span{0, 0, 10}, Span{2, 0, 30}, Span{3, 0, 40}));
  // By attention area, the long document costs more than all others together.
  const auto by_area = Make({10, 70, 30, 40, 20}, 2, Ownership::kWholeDocuments, CausalArea);
  EXPECT_THAT(by_area->spans(0), ElementsAre(Span{1, 0, 70}));
  // This greedy rule (longest processing time first) is within 4/3 of the optimum, which is at
  // least the mean.
  std::mt19937 random(9);
  for (int round = 0; round < 100; ++round) {
    std::vector<int64_t> lengths(64);
    for (int64_t& length : lengths) length = 1 + random() % 1000;
    EXPECT_LT(Imbalance(*Make(lengths, 1 + static_cast<int>(random() % 8),
                              Ownership::kWholeDocuments, CausalArea),
                        CausalArea),
              4.0 / 3);
  }
}

TEST(LayoutTest, DocumentsOfOneTokenAndNoDocumentsAtAll) {
  for (const Ownership ownership : kAll) {
    const auto ones = Make(std::vector<int64_t>(5, 1), 16, ownership, CausalArea);
    ASSERT_NO_FATAL_FAILURE(ExpectIsAPartition(*ones));
    const auto none = Make({}, 3, ownership);
    EXPECT_EQ(none->tokens(), 0);
    EXPECT_EQ(none->local_tokens(2), 0);
    EXPECT_EQ(none->Join({at::zeros({0, 2}), at::zeros({0, 2}), at::zeros({0, 2})}).size(0), 0);
  }
}

TEST(LayoutTest, EmptyDocumentsBelongToNobody) {
  for (const Ownership ownership : kAll) {
    for (const int ranks : {1, 3, 8}) {
      const auto layout = Make({0, 700, 0, 0, 5, 64, 0}, ranks, ownership, CausalArea),
                 without = Make({700, 5, 64}, ranks, ownership, CausalArea);
      ASSERT_NO_FATAL_FAILURE(ExpectIsAPartition(*layout));
      for (int r = 0; r < ranks; ++r) EXPECT_TRUE(BitEqual(layout->Index(r), without->Index(r)));
    }
    EXPECT_EQ(Make({0, 0}, 2, ownership)->tokens(), 0);
  }
}

TEST(LayoutTest, TheHeadsAxisCutsAContextPlaceInEvenRuns) {
  std::mt19937 random(23);
  for (int round = 0; round < 60; ++round) {
    const std::vector<int64_t> lengths = RandomLengths(random);
    const int contexts = 1 + static_cast<int>(random() % 4),
              heads = 1 + static_cast<int>(random() % 4);
    for (const Placement placement : {Placement::kHeadFirst, Placement::kContextFirst}) {
      const Division division{contexts, Ownership::kZigzag, heads, placement};
      const auto layout = *Layout::Create(lengths, division, CausalArea);
      const auto over_contexts = Make(lengths, contexts, Ownership::kZigzag, CausalArea);
      ASSERT_NO_FATAL_FAILURE(ExpectIsAPartition(*layout));
      ASSERT_NO_FATAL_FAILURE(ExpectCutAndJoinInvert(*layout));
      int64_t block = 0;
      for (const int64_t length : lengths) block = std::max(block, BlockSize(length));
      for (int c = 0; c < contexts; ++c) {
        EXPECT_EQ(layout->context_spans(c), over_contexts->spans(c));
        EXPECT_EQ(layout->context_tokens(c), over_contexts->local_tokens(c));
        std::vector<at::Tensor> runs;
        for (int h = 0; h < heads; ++h) {
          const int rank = division.Rank(c, h);
          EXPECT_EQ(division.ContextOf(rank), c);
          EXPECT_EQ(division.HeadOf(rank), h);
          EXPECT_LE(std::abs(layout->local_tokens(rank) -
                             static_cast<double>(layout->context_tokens(c)) / heads),
                    block + 1);
          runs.push_back(layout->Index(rank));
        }
        EXPECT_TRUE(BitEqual(at::cat(runs), over_contexts->Index(c)))
            << "the runs of a context place, one after another, are its rows";
      }
    }
  }
}

TEST(LayoutTest, CutAndJoinCarryGradients) {
  const auto layout = Make({300, 5, 700}, 3, Ownership::kZigzag);
  at::Tensor stream = at::arange(1005, at::kDouble).requires_grad_();
  std::vector<at::Tensor> locals;
  for (int r = 0; r < 3; ++r) locals.push_back(layout->Cut(stream, r) * (r + 1));
  layout->Join(locals).sum().backward();
  for (int r = 0; r < 3; ++r)
    EXPECT_TRUE(layout->Cut(stream.grad(), r).eq(r + 1).all().item<bool>());
}

// A layout for other documents on the same rows: each rank has the same rows in the same order.
TEST(LayoutTest, OtherDocumentsOnTheSameRows) {
  const std::vector<int64_t> others = {0, 7, 293, 0, 6, 500, 0, 199, 0};
  for (const Ownership ownership : kAll) {
    for (const int heads : {1, 2}) {
      ASSERT_OK_AND_ASSIGN(const auto layout,
                           Layout::Create({300, 5, 700}, {3, ownership, heads}, CausalArea));
      ASSERT_OK_AND_ASSIGN(const auto same, layout->WithDocuments(others));
      EXPECT_EQ(same->division(), layout->division());
      EXPECT_EQ(same->lengths(), others);
      ASSERT_NO_FATAL_FAILURE(ExpectCutAndJoinInvert(*same));
      for (int rank = 0; rank < layout->ranks(); ++rank)
        EXPECT_TRUE(BitEqual(same->Index(rank), layout->Index(rank)));
      for (int context = 0; context < 3; ++context)
        EXPECT_EQ(same->context_tokens(context), layout->context_tokens(context));
      // The other direction.
      ASSERT_OK_AND_ASSIGN(const auto back, same->WithDocuments({300, 5, 700}));
      for (int rank = 0; rank < layout->ranks(); ++rank)
        EXPECT_EQ(back->spans(rank), layout->spans(rank));
    }
  }
  const auto layout = Make({10}, 2, Ownership::kContiguous);
  EXPECT_THAT(layout->WithDocuments({9}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("other documents of 9 tokens, the stream has 10")));
  EXPECT_THAT(layout->WithDocuments({-1, 11}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("document 0 has -1")));
}

TEST(LayoutTest, RefusesInvalidLayouts) {
  EXPECT_THAT(Layout::Create({4, -1, 2}, {2, Ownership::kZigzag}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("document 1 has -1 tokens")));
  EXPECT_THAT(Layout::Create({4}, {0, Ownership::kZigzag}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ranks=0")));
  const auto layout = Make({100, 28}, 2, Ownership::kContiguous);
  EXPECT_THROW(layout->Cut(at::zeros({127}), 0), c10::Error);
  EXPECT_THROW(layout->Join({at::zeros({128})}), c10::Error);
  EXPECT_THROW(layout->Join({at::zeros({1}), at::zeros({127})}), c10::Error);
}

}  // namespace
}  // namespace moonring::comm
