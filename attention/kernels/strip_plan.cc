#include "attention/kernels/strip_plan.h"

#include <algorithm>
#include <utility>

namespace moonring::attention {
namespace {

constexpr int64_t kStripRound = 64;               // granularity of rows of strips and of keys of
                                                  // pieces
constexpr int64_t kUnbounded = int64_t{1} << 40;  // greater than any row index

struct TileOfCall {
  RowRange queries, keys;
  SeenPairs seen;

  int64_t pairs() const { return queries.rows() * keys.rows(); }
};

TileOfCall SeenTileAt(const VarlenTiles& tiles, size_t i) {
  const RowRange queries{tiles.query_offsets[i], tiles.query_offsets[i + 1]},
      keys{tiles.key_offsets[i], tiles.key_offsets[i + 1]};
  SeenPairs seen{queries.rows(), keys.rows(), -kUnbounded, kUnbounded};
  switch (tiles.kind) {
    case TileKind::kFull:
      break;
    case TileKind::kCausal:
      seen.high = 0;
      break;
    case TileKind::kWindowEdge:
      seen.low = 0;
      break;
    case TileKind::kBand:
      seen.high = keys.rows() - queries.rows();
      if (tiles.window > 0) seen.low = seen.high - tiles.window + 1;
      break;
  }
  return {queries, keys, seen};
}

int64_t ToMultiple(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The keys that the tile's queries [begin, end) attend to.
RowRange KeysSeenBy(const TileOfCall& tile, int64_t begin, int64_t end) {
  return {std::max<int64_t>(0, begin + tile.seen.low),
          std::min(tile.keys.rows(), end + tile.seen.high)};
}

// The strip of a large tile's queries [begin, end), with all keys that they attend to.
Strip StripOf(const TileOfCall& tile, int64_t begin, int64_t end) {
  const RowRange seen = KeysSeenBy(tile, begin, end);
  Strip strip{{{tile.queries.begin + begin, tile.queries.begin + end}}, {}};
  const int64_t pieces = (seen.rows() + kMostKeys - 1) / kMostKeys,
                step = ToMultiple((seen.rows() + pieces - 1) / pieces, kStripRound);
  for (int64_t key = seen.begin; key < seen.end; key += step) {
    const int64_t last = std::min(key + step, seen.end), shift = begin - key;
    strip.pieces.push_back(
        {{{tile.keys.begin + key, tile.keys.begin + last}},
         {{end - begin, last - key, tile.seen.low + shift, tile.seen.high + shift}}});
  }
  return strip;
}

void CutTile(const TileOfCall& tile, int64_t pairs, std::vector<Strip>& plan) {
  // In a band that is W keys wide, a strip of s queries attends to s + W keys.
  const int64_t width = std::max<int64_t>(1, tile.seen.high - tile.seen.low);
  const auto fits = [&](int64_t rows) {
    const int64_t keys = std::min({kMostKeys, tile.keys.rows(), rows + width});
    return rows * keys <= pairs;
  };
  int64_t rows = kStripRound;
  while (rows < tile.queries.rows() && fits(rows + kStripRound)) rows += kStripRound;
  for (int64_t begin = 0; begin < tile.queries.rows(); begin += rows)
    plan.push_back(StripOf(tile, begin, std::min(begin + rows, tile.queries.rows())));
}

}  // namespace

std::vector<Strip> PlanStrips(const VarlenTiles& tiles, int64_t pairs) {
  std::vector<TileOfCall> whole;
  std::vector<Strip> cut, plan;
  for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
    const TileOfCall tile = SeenTileAt(tiles, i);
    tile.pairs() <= pairs ? whole.push_back(tile) : CutTile(tile, pairs, cut);
  }
  std::stable_sort(whole.begin(), whole.end(), [](const TileOfCall& a, const TileOfCall& b) {
    return std::pair(a.queries.rows(), a.keys.rows()) > std::pair(b.queries.rows(), b.keys.rows());
  });
  int64_t fewest_keys = 0, most_keys = 0;
  for (const TileOfCall& tile : whole) {
    const int64_t rows = tile.queries.rows(), keys = tile.keys.rows(),
                  fewest = std::min(fewest_keys, keys), most = std::max(most_keys, keys);
    Strip* const last = plan.empty() ? nullptr : &plan.back();
    const bool fits =
        last != nullptr && 2 * rows >= last->queries[0].rows() && 2 * fewest >= most &&
        (static_cast<int64_t>(last->queries.size()) + 1) * last->queries[0].rows() * most <= pairs;
    if (!fits) plan.push_back({{}, {StripKeys()}});
    fewest_keys = fits ? fewest : keys;
    most_keys = fits ? most : keys;
    plan.back().queries.push_back(tile.queries);
    plan.back().pieces[0].keys.push_back(tile.keys);
    plan.back().pieces[0].seen.push_back(tile.seen);
  }
  plan.insert(plan.end(), cut.begin(), cut.end());
  return plan;
}

}  // namespace moonring::attention
