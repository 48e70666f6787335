#include "attention/tile_plan.h"

#include <memory>
#include <numeric>
#include <vector>

#include "attention/head_split.h"
#include "comm/layout.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using comm::Layout;
using comm::Ownership;

const std::vector<std::vector<int64_t>> kPacks = {{1}, {64}, {65}, {2, 1}, {1, 2, 63, 64, 65, 200}, {700, 3}, {2100}, {130, 1, 1, 513}};

// The pairs (query, key) of the stream that tiles meet, counted: times[query * T + key].
class Pairs {
 public:
  explicit Pairs(int64_t tokens) : tokens_(tokens), times_(tokens * tokens, 0) {}

  void Add(const TilePlan& plan, const std::vector<int64_t>& query_row, const std::vector<int64_t>& key_row) {
    ASSERT_EQ(plan.query_rows, static_cast<int64_t>(query_row.size()));
    ASSERT_EQ(plan.key_rows, static_cast<int64_t>(key_row.size()));
    for (const QueryBlock& block : plan.blocks) {
      ASSERT_GT(block.queries.rows(), 0);
      ASSERT_FALSE(block.tiles.empty());
      for (const KeyTile& tile : block.tiles) {
        ASSERT_GT(tile.keys.rows(), 0);
        ASSERT_TRUE(tile.kind == TileKind::kFull || tile.keys.rows() == block.queries.rows());
        for (int64_t i = 0; i < block.queries.rows(); ++i) {
          const int64_t seen = tile.kind == TileKind::kCausal ? i + 1 : tile.keys.rows();
          for (int64_t j = 0; j < seen; ++j) ++times_[query_row[block.queries.begin + i] * tokens_ + key_row[tile.keys.begin + j]];
        }
      }
    }
  }

  // Each query has met each token of its document up to itself once, and no other.
  void ExpectCausal(const std::vector<int64_t>& lengths) const {
    int64_t offset = 0, wrong = 0;
    for (const int64_t length : lengths) {
      for (int64_t query = offset; query < offset + length; ++query) {
        for (int64_t key = 0; key < tokens_; ++key) wrong += times_[query * tokens_ + key] != (key >= offset && key <= query);
      }
      offset += length;
    }
    EXPECT_EQ(wrong, 0);
  }

 private:
  int64_t tokens_;
  std::vector<int> times_;
};

std::vector<int64_t> StreamRows(const Layout& layout, int rank) {
  std::vector<int64_t> rows;
  for (const comm::Span& span : layout.spans(rank)) {
    for (int64_t t = span.begin; t < span.end; ++t) rows.push_back(layout.document_offset(span.document) + t);
  }
  return rows;
}

TEST(TilePlanTest, WholeDocumentsMeetEachCausalPairOnce) {
  for (const std::vector<int64_t>& lengths : kPacks) {
    std::vector<int64_t> rows(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
    std::iota(rows.begin(), rows.end(), 0);
    const TilePlan plan = PlanWholeDocuments(lengths);
    Pairs pairs(static_cast<int64_t>(rows.size()));
    pairs.Add(plan, rows, rows);
    pairs.ExpectCausal(lengths);
    double area = 0;
    for (const int64_t length : lengths) area += CausalTileArea(0, 0, length);
    EXPECT_EQ(plan.area(), area);
  }
}

TEST(TilePlanTest, ABlockIsItsPrefixAndThenItsDiagonal) {
  const TilePlan plan = PlanWholeDocuments({{10, 130}});
  ASSERT_EQ(plan.blocks.size(), 4u);
  EXPECT_EQ(plan.blocks[0].tiles, (std::vector<KeyTile>{{{0, 10}, TileKind::kCausal}}));
  EXPECT_EQ(plan.blocks[1].tiles, (std::vector<KeyTile>{{{10, 74}, TileKind::kCausal}}));
  EXPECT_EQ(plan.blocks[2].tiles, (std::vector<KeyTile>{{{10, 74}, TileKind::kFull}, {{74, 138}, TileKind::kCausal}}));
  EXPECT_EQ(plan.blocks[3].queries, (RowRange{138, 140}));
  EXPECT_EQ(plan.blocks[3].tiles, (std::vector<KeyTile>{{{10, 138}, TileKind::kFull}, {{138, 140}, TileKind::kCausal}}));
}

TEST(TilePlanTest, RingMeetsEachCausalPairOnce) {
  for (const std::vector<int64_t>& lengths : kPacks) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      for (const Ownership ownership : {Ownership::kContiguous, Ownership::kZigzag, Ownership::kWholeDocuments}) {
        SCOPED_TRACE(::testing::Message() << lengths.size() << " documents, the first of " << lengths[0] << ", " << ranks << " ranks, "
                                          << comm::OwnershipName(ownership));
        ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout, Layout::Create(lengths, ranks, ownership, CausalTileArea));
        Pairs pairs(layout->tokens());
        double area = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<int64_t> queries = StreamRows(*layout, rank);
          for (const RingStep& step : PlanRing(*layout, rank)) {
            std::vector<int64_t> keys = queries;
            if (step.from != rank) {  // what the owner sends
              const std::vector<int64_t> owned = StreamRows(*layout, step.from);
              keys.clear();
              for (const RowRange& range : RowsNeeded(*layout, step.from, rank))
                keys.insert(keys.end(), owned.begin() + range.begin, owned.begin() + range.end);
              EXPECT_EQ(step.receive_rows, static_cast<int64_t>(keys.size()));
            }
            pairs.Add(step.tiles, queries, keys);
            area += step.tiles.area();
          }
        }
        pairs.ExpectCausal(lengths);
        EXPECT_EQ(area, PlanWholeDocuments(lengths).area());
      }
    }
  }
}

TEST(TilePlanTest, WhatARankSendsInAStepIsWhatItsPeerReceives) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout, Layout::Create({1, 2, 63, 700, 65}, 4, Ownership::kZigzag, CausalTileArea));
  std::vector<std::vector<RingStep>> plans;
  for (int rank = 0; rank < 4; ++rank) plans.push_back(PlanRing(*layout, rank));
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(plans[rank].size(), plans[0].size()) << "steps are the same on all ranks";
    for (size_t s = 1; s < plans[rank].size(); ++s) {
      const RingStep &mine = plans[rank][s], &theirs = plans[mine.to][s];
      EXPECT_EQ(theirs.from, rank);
      EXPECT_EQ(theirs.receive_rows, mine.send_rows);
    }
  }
}

TEST(TilePlanTest, NothingTravelsWithoutACommonDocument) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout, Layout::Create({100, 100, 100}, 3, Ownership::kWholeDocuments));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(PlanRing(*layout, rank).size(), 1u);
}

TEST(TilePlanTest, ZigzagIsBalanced) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout, Layout::Create({8192}, 4, Ownership::kZigzag, CausalTileArea));
  for (int rank = 0; rank < 4; ++rank) {
    double area = 0;
    for (const RingStep& step : PlanRing(*layout, rank)) area += step.tiles.area();
    EXPECT_NEAR(area / CausalTileArea(0, 0, 8192), 0.25, 1e-12);
  }
}

TEST(TilePlanTest, CausalTileAreaIsTheSumOverRows) {
  double sum = 0;
  for (int64_t t = 5; t < 42; ++t) sum += static_cast<double>(t + 1);
  EXPECT_EQ(CausalTileArea(0, 5, 42), sum);
  EXPECT_EQ(CausalTileArea(0, 0, 5) + CausalTileArea(0, 5, 42), CausalTileArea(0, 0, 42));
}

TEST(HeadSplitTest, EveryQueryHeadIsOnOneRankWithItsKvHead) {
  for (const auto& [heads, kv_heads] : std::vector<std::pair<int64_t, int64_t>>{{4, 4}, {4, 2}, {9, 3}, {6, 1}, {5, 5}, {32, 8}}) {
    for (const int ranks : {1, 2, 3, 4, 7, 8, 40}) {
      const int64_t group = heads / kv_heads;
      const std::vector<RankHeads> split = SplitHeads(heads, kv_heads, ranks);
      int64_t next = 0;
      for (const RankHeads& rank : split) {
        if (rank.queries.heads() == 0) {
          EXPECT_EQ(rank.packed(), 0);
          continue;
        }
        EXPECT_EQ(rank.queries.begin, next);
        next = rank.queries.end;
        EXPECT_LE(rank.queries.heads(), (heads + ranks - 1) / ranks);
        int64_t query = rank.queries.begin;
        for (const HeadGroup& heads_of_kv : GroupHeads(rank, group)) {
          for (int64_t h = heads_of_kv.queries.begin; h < heads_of_kv.queries.end; ++h) {
            EXPECT_EQ(rank.queries.begin + h, query);
            EXPECT_EQ(rank.kv.begin + heads_of_kv.kv, query / group);
            ++query;
          }
        }
        EXPECT_EQ(query, rank.queries.end);
      }
      EXPECT_EQ(next, heads);
      if (kv_heads % ranks == 0) {
        EXPECT_FALSE(SharesKvHeads(split));
      } else if (heads % ranks == 0 && ranks > kv_heads) {
        EXPECT_TRUE(SharesKvHeads(split));
      }
    }
  }
}

}  // namespace
}  // namespace moonring::attention
