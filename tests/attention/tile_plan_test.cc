#include "attention/kernels/tile_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/tensor.h>

#include "attention/kernels/head_split.h"
#include "attention/kernels/mask.h"
#include "attention/strategy/context_plan.h"
#include "attention/strategy/gather_plan.h"
#include "attention/strategy/key_transport.h"
#include "attention/strategy/ring_plan.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "gtest/gtest.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using comm::Layout;
using comm::Ownership;

const std::vector<std::vector<int64_t>> kPacks = {
    {1}, {64}, {65}, {2, 1}, {1, 2, 63, 64, 65, 200}, {700, 3}, {2100}, {130, 1, 1, 513}};

// Counts how often the tiles of a plan contain each pair (query, key): times[query * T + key].
class Pairs {
 public:
  explicit Pairs(int64_t tokens) : tokens_(tokens), times_(tokens * tokens, 0) {}

  void Add(const TilePlan& plan, const std::vector<int64_t>& query_row,
           const std::vector<int64_t>& key_row) {
    ASSERT_EQ(plan.query_rows, static_cast<int64_t>(query_row.size()));
    ASSERT_EQ(plan.key_rows, static_cast<int64_t>(key_row.size()));
    for (const QueryBlock& block : plan.blocks) {
      ASSERT_FALSE(block.tiles.empty());
      for (const TileRows& tile : block.tiles) {
        ASSERT_GT(tile.queries.rows(), 0);
        ASSERT_GT(tile.keys.rows(), 0);
        ASSERT_TRUE(block.queries.begin <= tile.queries.begin &&
                    tile.queries.end <= block.queries.end);
        ASSERT_TRUE(tile.kind == TileKind::kFull || tile.keys.rows() == tile.queries.rows());
        double met = 0;
        for (int64_t i = 0; i < tile.queries.rows(); ++i) {
          const int64_t first = tile.kind == TileKind::kWindowEdge ? i : 0,
                        end = tile.kind == TileKind::kCausal ? i + 1 : tile.keys.rows();
          for (int64_t j = first; j < end; ++j)
            ++times_[query_row[tile.queries.begin + i] * tokens_ + key_row[tile.keys.begin + j]];
          met += static_cast<double>(end - first);
        }
        EXPECT_EQ(tile.area(), met);
      }
    }
  }

  // Expects that each query is paired exactly once with each key that it attends to, and with no
  // other.
  void ExpectSeen(const at::Tensor& hidden_TT) const {
    const at::Tensor times = at::tensor(times_, at::kInt).view({tokens_, tokens_});
    EXPECT_TRUE(times.equal(hidden_TT.logical_not().to(at::kInt)));
  }

  // Expects that each query is paired exactly once with each token of its document up to itself
  // (the last `window` of them if there is a window), and with no other.
  void ExpectCausal(const std::vector<int64_t>& lengths, int64_t window) const {
    int64_t offset = 0, wrong = 0;
    for (const int64_t length : lengths) {
      for (int64_t query = offset; query < offset + length; ++query) {
        const int64_t first = window > 0 ? std::max(offset, query - window + 1) : offset;
        for (int64_t key = 0; key < tokens_; ++key)
          wrong += times_[query * tokens_ + key] != (key >= first && key <= query);
      }
      offset += length;
    }
    EXPECT_EQ(wrong, 0);
  }

 private:
  int64_t tokens_;
  std::vector<int> times_;
};

std::vector<int64_t> RowsOfSpans(const Layout& layout, const std::vector<comm::Span>& spans) {
  std::vector<int64_t> rows;
  for (const comm::Span& span : spans) {
    for (int64_t t = span.begin; t < span.end; ++t)
      rows.push_back(layout.document_offset(span.document) + t);
  }
  return rows;
}

// The dense plan: one rank with all rows.
TilePlan PlanWhole(const std::vector<int64_t>& lengths, int64_t window = 0,
                   TileGrid grid = TileGrid::kBlocks) {
  const auto layout = *Layout::Create(lengths, {1});
  return RingTransport(1).Plan(*layout, 0, {window, grid}).steps.at(0).tiles;
}

TEST(TilePlanTest, WholeDocumentsMeetEachPairOnce) {
  for (const std::vector<int64_t>& lengths : kPacks) {
    for (const int64_t window : {0, 1, 2, 3, 63, 64, 65, 100, 600}) {
      for (const TileGrid grid : {TileGrid::kBlocks, TileGrid::kSpans}) {
        SCOPED_TRACE(::testing::Message() << lengths.size() << " documents, the first of "
                                          << lengths[0] << ", window " << window);
        std::vector<int64_t> rows(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
        std::iota(rows.begin(), rows.end(), 0);
        const TilePlan plan = PlanWhole(lengths, window, grid);
        Pairs pairs(static_cast<int64_t>(rows.size()));
        pairs.Add(plan, rows, rows);
        pairs.ExpectCausal(lengths, window);
      }
    }
  }
}

TEST(TilePlanTest, ABlockIsItsPrefixAndThenItsDiagonal) {
  const TilePlan plan = PlanWhole({10, 130});
  ASSERT_EQ(plan.blocks.size(), 4u);
  EXPECT_EQ(plan.blocks[0].tiles, (std::vector<TileRows>{{{0, 10}, {0, 10}, TileKind::kCausal}}));
  EXPECT_EQ(plan.blocks[1].tiles, (std::vector<TileRows>{{{10, 74}, {10, 74}, TileKind::kCausal}}));
  EXPECT_EQ(plan.blocks[2].tiles,
            (std::vector<TileRows>{{{74, 138}, {10, 74}, TileKind::kFull},
                                   {{74, 138}, {74, 138}, TileKind::kCausal}}));
  EXPECT_EQ(plan.blocks[3].queries, (RowRange{138, 140}));
  EXPECT_EQ(plan.blocks[3].tiles,
            (std::vector<TileRows>{{{138, 140}, {10, 138}, TileKind::kFull},
                                   {{138, 140}, {138, 140}, TileKind::kCausal}}));
}

// A block ends where the prefix ends. The prefix's queries attend to the whole prefix, later
// queries causally.
TEST(TilePlanTest, ABlockOfAPrefixSeesAllOfIt) {
  ASSERT_OK_AND_ASSIGN(const auto mask, Mask::Create({130}, {{100}}));
  const auto layout = *Layout::Create({130}, {1});
  const TilePlan plan =
      RingTransport(1).Plan(*layout, 0, {0, TileGrid::kBlocks, mask.get()}).steps.at(0).tiles;
  ASSERT_EQ(plan.blocks.size(), 4u);  // the blocks end at 64, 100, 128 and 130
  EXPECT_EQ(plan.blocks[0].tiles, (std::vector<TileRows>{{{0, 64}, {0, 100}, TileKind::kFull}}));
  EXPECT_EQ(plan.blocks[1].tiles, (std::vector<TileRows>{{{64, 100}, {0, 100}, TileKind::kFull}}));
  EXPECT_EQ(plan.blocks[2].tiles,
            (std::vector<TileRows>{{{100, 128}, {0, 100}, TileKind::kFull},
                                   {{100, 128}, {100, 128}, TileKind::kCausal}}));
}

TEST(TilePlanTest, ABandIsItsEdgeItsMiddleAndItsDiagonal) {
  const TilePlan plan = PlanWhole({192}, /*window=*/70);  // the blocks end at 64, 70, 128 and 192
  ASSERT_EQ(plan.blocks.size(), 4u);
  EXPECT_EQ(plan.blocks[1].tiles, (std::vector<TileRows>{{{64, 70}, {0, 64}, TileKind::kFull},
                                                         {{64, 70}, {64, 70}, TileKind::kCausal}}));
  EXPECT_EQ(plan.blocks[3].tiles,
            (std::vector<TileRows>{{{128, 191}, {59, 122}, TileKind::kWindowEdge},
                                   {{128, 192}, {122, 128}, TileKind::kFull},
                                   {{128, 192}, {128, 192}, TileKind::kCausal}}));
}

// Expects that blocks of different document families (documents that are connected by parents) have
// no key in common: the backward adds to the keys of each family separately.
void ExpectKeysOfOneFamily(const TilePlan& plan) {
  std::vector<int64_t> family_of_row(plan.key_rows, -1);
  for (const QueryBlock& block : plan.blocks) {
    for (const TileRows& tile : block.tiles) {
      for (int64_t row = tile.keys.begin; row < tile.keys.end; ++row) {
        int64_t& family = family_of_row[row];
        if (family == -1) family = block.document;
        ASSERT_EQ(family, block.document);
      }
    }
  }
}

// The transports of all strategies, each kind once, and rings in windows of one and two ranks.
std::vector<std::shared_ptr<const KeyTransport>> Transports(int places) {
  std::vector<std::shared_ptr<const KeyTransport>> transports = {
      std::make_shared<RingTransport>(1), std::make_shared<RingTransport>(places % 2 == 0 ? 2 : 1)};
  std::set<absl::string_view> seen;
  for (const std::string& name : StrategyNames()) {
    const auto strategy = ResolveStrategy({.name = name}, 4);
    if (strategy.ok() && seen.insert(strategy->transport->name()).second)
      transports.push_back(strategy->transport);
  }
  return transports;
}

// Returns which rows of the stream each step's keys contain, found by following the transfers of
// all ranks from the rows' owners.
std::vector<std::vector<std::vector<int64_t>>> Travel(const Layout& layout,
                                                      const std::vector<ContextPlan>& plans) {
  const int places = static_cast<int>(plans.size());
  std::vector<std::vector<std::vector<int64_t>>> keys(places);
  for (size_t s = 0; s < plans[0].steps.size(); ++s) {
    for (int place = 0; place < places; ++place) {
      const ContextStep& step = plans[place].steps[s];
      keys[place].push_back(step.own ? RowsOfSpans(layout, layout.context_spans(place))
                                     : std::vector<int64_t>(step.tiles.key_rows, -1));
    }
    for (int place = 0; place < places; ++place) {
      for (const KeyMove& receive : plans[place].steps[s].receive) {
        const ContextStep& sender = plans[receive.place].steps[s];
        const auto send = std::find_if(sender.send.begin(), sender.send.end(),
                                       [&](const KeyMove& move) { return move.place == place; });
        if (send == sender.send.end()) {
          ADD_FAILURE() << "place " << place << " waits for " << receive.place << " in step " << s;
          continue;
        }
        EXPECT_EQ(send->count(), receive.count());
        const bool from_own =
            sender.source == static_cast<int>(s) || plans[receive.place].steps[sender.source].own;
        const std::vector<int64_t> source =
            from_own ? RowsOfSpans(layout, layout.context_spans(receive.place))
                     : keys[receive.place][sender.source];
        std::vector<int64_t> sent;
        for (const RowRange& range : send->rows)
          sent.insert(sent.end(), source.begin() + range.begin, source.begin() + range.end);
        size_t i = 0;
        for (const RowRange& range : receive.rows) {
          for (int64_t row = range.begin; row < range.end; ++row) keys[place][s][row] = sent[i++];
        }
      }
    }
  }
  return keys;
}

TEST(TilePlanTest, EveryTransportMeetsEachPairOnce) {
  for (const std::vector<int64_t>& lengths : kPacks) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      for (const Ownership ownership :
           {Ownership::kContiguous, Ownership::kZigzag, Ownership::kWholeDocuments}) {
        ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout,
                             Layout::Create(lengths, {ranks, ownership}, CausalTileArea));
        for (const auto& transport : Transports(ranks)) {
          for (const TileOptions& options : std::vector<TileOptions>{
                   {0}, {100}, {63}, {0, TileGrid::kSpans}, {100, TileGrid::kSpans}}) {
            SCOPED_TRACE(::testing::Message()
                         << lengths.size() << " documents, the first of " << lengths[0] << ", "
                         << ranks << " ranks, " << comm::OwnershipName(ownership) << ", "
                         << transport->name() << " in windows of "
                         << transport->ranks_per_window(ranks) << ", window " << options.window);
            std::vector<ContextPlan> plans;
            for (int place = 0; place < ranks; ++place)
              plans.push_back(transport->Plan(*layout, place, options));
            const auto keys = Travel(*layout, plans);
            Pairs pairs(layout->tokens());
            for (int place = 0; place < ranks; ++place) {
              ASSERT_EQ(plans[place].steps.size(), plans[0].steps.size())
                  << "steps are the same on all places";
              for (size_t s = 0; s < plans[place].steps.size(); ++s) {
                pairs.Add(plans[place].steps[s].tiles,
                          RowsOfSpans(*layout, layout->context_spans(place)), keys[place][s]);
              }
            }
            pairs.ExpectCausal(lengths, options.window);
          }
        }
      }
    }
  }
}

// Returns a random mask with prefixes, parents before and after their child, and chains of parents.
std::vector<DocumentMask> RandomMask(const std::vector<int64_t>& lengths, std::mt19937& random) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % bound); };
  const auto count = static_cast<int64_t>(lengths.size());
  std::vector<int64_t> order(count);  // parents come first in this order, so there is no cycle
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<DocumentMask> documents(count);
  for (int64_t i = 0; i < count; ++i) {
    DocumentMask& document = documents[order[i]];
    if (below(2) == 0) document.prefix = below(lengths[order[i]] + 1);
    if (i == 0 || below(3) == 0) continue;
    document.parent = order[below(i)];
    document.parent_tokens = below(lengths[document.parent] + 1);
  }
  return documents;
}

TEST(TilePlanTest, EveryTransportMeetsWhatAMaskShowsOnce) {
  std::mt19937 random(5);
  for (const std::vector<int64_t>& lengths :
       std::vector<std::vector<int64_t>>{{1}, {65, 0, 1}, {1, 2, 63, 64, 65, 200}, {600, 3, 130}}) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      for (const Ownership ownership :
           {Ownership::kContiguous, Ownership::kZigzag, Ownership::kWholeDocuments}) {
        const std::vector<DocumentMask> documents = RandomMask(lengths, random);
        ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Mask> mask,
                             Mask::Create(lengths, documents));
        const auto cost = [&](int64_t d, int64_t begin, int64_t end) {
          return mask->Area(d, begin, end);
        };
        ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout,
                             Layout::Create(lengths, {ranks, ownership}, cost));
        for (const auto& transport : Transports(ranks)) {
          for (const auto& [window, grid] :
               std::vector<std::pair<int64_t, TileGrid>>{{0, TileGrid::kBlocks},
                                                         {60, TileGrid::kBlocks},
                                                         {1, TileGrid::kSpans},
                                                         {0, TileGrid::kSpans},
                                                         {150, TileGrid::kSpans}}) {
            SCOPED_TRACE(::testing::Message()
                         << lengths.size() << " documents, " << ranks << " ranks, "
                         << comm::OwnershipName(ownership) << ", " << transport->name()
                         << " in windows of " << transport->ranks_per_window(ranks) << ", window "
                         << window);
            std::vector<ContextPlan> plans;
            for (int place = 0; place < ranks; ++place)
              plans.push_back(transport->Plan(*layout, place, {window, grid, mask.get()}));
            const auto keys = Travel(*layout, plans);
            Pairs pairs(layout->tokens());
            for (int place = 0; place < ranks; ++place) {
              ASSERT_EQ(plans[place].steps.size(), plans[0].steps.size());
              for (size_t s = 0; s < plans[place].steps.size(); ++s) {
                const TilePlan& tiles = plans[place].steps[s].tiles;
                pairs.Add(tiles, RowsOfSpans(*layout, layout->context_spans(place)),
                          keys[place][s]);
                ExpectKeysOfOneFamily(tiles);
              }
            }
            pairs.ExpectSeen(moonring::testing::HiddenPairs(lengths, documents, window));
          }
        }
      }
    }
  }
}

TEST(TilePlanTest, NothingTravelsWithoutACommonDocument) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout,
                       Layout::Create({100, 100, 100}, {3, Ownership::kWholeDocuments}));
  for (int place = 0; place < 3; ++place) {
    EXPECT_EQ(RingTransport().Plan(*layout, place, {}).steps.size(), 1u);
    const ContextPlan gather = GatherTransport().Plan(*layout, place, {});
    for (const KeyMove& move : gather.steps[0].send) EXPECT_EQ(move.place, place);
  }
}

TEST(TilePlanTest, NothingTravelsBeyondAWindow) {
  // Four ranks with 512 tokens each: with a window of 65, a rank needs the 64 tokens before its
  // own.
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout,
                       Layout::Create({2048}, {4, Ownership::kContiguous}));
  for (int place = 0; place < 4; ++place) {
    const ContextPlan plan = RingTransport().Plan(*layout, place, {.window = 65});
    ASSERT_EQ(plan.steps.size(), 2u);
    EXPECT_EQ(plan.steps[1].tiles.key_rows, place == 0 ? 0 : 64);
  }
}

TEST(TilePlanTest, OfADoubleRingOneCopyCrossesWindows) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout,
                       Layout::Create({16384}, {8, Ownership::kZigzag}, CausalTileArea));
  // The number of rows that are sent from one half of the ranks to the other.
  const auto crossing = [&](int window) {
    int64_t rows = 0;
    for (int place = 0; place < 8; ++place) {
      const ContextPlan plan = RingTransport(window).Plan(*layout, place, {});
      for (const ContextStep& step : plan.steps) {
        for (const KeyMove& move : step.send)
          rows += move.place / 4 != place / 4 ? move.count() : 0;
      }
    }
    return rows;
  };
  // The ranks of the outer half own the first and the last quarter of the document; the inner half
  // never attends to the last.
  EXPECT_EQ(crossing(4), 16384 / 4 * 3);
  EXPECT_EQ(crossing(8), 4 * crossing(4));
}

TEST(TilePlanTest, ZigzagIsBalanced) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Layout> layout,
                       Layout::Create({8192}, {4, Ownership::kZigzag}, CausalTileArea));
  for (int place = 0; place < 4; ++place)
    EXPECT_NEAR(RingTransport().Plan(*layout, place, {}).area() / CausalTileArea(0, 0, 8192), 0.25,
                1e-12);
}

TEST(TilePlanTest, CausalTileAreaIsTheSumOverRows) {
  double sum = 0;
  for (int64_t t = 5; t < 42; ++t) sum += static_cast<double>(t + 1);
  EXPECT_EQ(CausalTileArea(0, 5, 42), sum);
  EXPECT_EQ(CausalTileArea(0, 0, 5) + CausalTileArea(0, 5, 42), CausalTileArea(0, 0, 42));
}

TEST(HeadSplitTest, EveryQueryHeadIsOnOneRankWithItsKvHead) {
  for (const auto& [heads, kv_heads] :
       std::vector<std::pair<int64_t, int64_t>>{{4, 4}, {4, 2}, {9, 3}, {6, 1}, {5, 5}, {32, 8}}) {
    for (const int ranks : {1, 2, 3, 4, 7, 8, 40}) {
      const int64_t group = heads / kv_heads;
      const std::vector<RankHeads> split = SplitHeads(heads, kv_heads, ranks);
      int64_t next = 0;
      for (const RankHeads& rank : split) {
        if (rank.queries.heads() == 0) {
          EXPECT_EQ(rank.packed({16, 12}), 0);
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
