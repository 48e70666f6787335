#ifndef MOONRING_ATTENTION_KERNELS_TILE_H_
#define MOONRING_ATTENTION_KERNELS_TILE_H_

// Tiles: attention over a packed stream is divided into tiles, which are described by ranges of
// rows and determined on the host.
//
// A tile is a range of query rows of one document against a range of key rows of the same document,
// or of another one that a mask allows. Its kind says which keys query row i of the tile attends
// to, where j is the index of a key row in the tile:
//
//   full          all
//   causal        j <= i: the same tokens on both sides, so the tile is square
//   window edge   j >= i, also square: key 0 is the farthest key within the window of query 0
//   band          N keys are consecutive tokens, and the M queries are the last M of these tokens.
//                 Each query attends to the keys up to its own token or, with a window W, to the
//                 last W of these:
//                 i + N - M - W < j <= i + N - M
//
// The keys of a sliding window are composed of the first three kinds, or are a band where the
// kernel supports bands (TileGrid::kBands). There are no other kinds, so it matters only for bands
// how a kernel aligns the mask of a non-square tile. Empty tiles are avoided here, so kernels do
// not examine values for that: no tile has zero rows, and in every tile each query attends to at
// least one key.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace moonring::attention {

enum class TileKind { kFull, kCausal, kWindowEdge, kBand };

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t rows() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

struct TileRows {
  RowRange queries;
  RowRange keys;
  TileKind kind = TileKind::kFull;
  int64_t window = 0;  // of a band; 0: none

  // Unmasked query-key pairs.
  double area() const {
    const double q = static_cast<double>(queries.rows()), k = static_cast<double>(keys.rows());
    if (kind == TileKind::kFull) return q * k;
    if (kind != TileKind::kBand) return q * (q + 1) / 2;
    // The first query attends to k - q + 1 keys, each further one to one more, up to the window.
    const double whole = window > 0 ? std::clamp(static_cast<double>(window) - (k - q), 0.0, q) : q;
    return whole * (k - q) + whole * (whole + 1) / 2 + (q - whole) * static_cast<double>(window);
  }
  friend bool operator==(const TileRows&, const TileRows&) = default;
};

// One block of queries and its tiles, in the order in which their results are merged.
struct QueryBlock {
  int64_t document = 0;  // the queries' document; under a mask, the document's family
                         // (Mask::family). Blocks with different numbers share no key
  RowRange queries;
  std::vector<TileRows> tiles;

  double area() const {
    double pairs = 0;
    for (const TileRows& tile : tiles) pairs += tile.area();
    return pairs;
  }
};

// Base class of the data that a runner derives from a plan at the plan's first use and stores in
// it, for example indices and offsets on a device. They are made once for all layers, forward and
// backward.
class PlanNotes {
 public:
  virtual ~PlanNotes() = default;
};

// The tiles between a buffer of query rows and a buffer of key rows. The queries of different
// blocks do not overlap. Must not be changed after a runner has used it.
struct TilePlan {
  int64_t query_rows = 0;
  int64_t key_rows = 0;
  std::vector<QueryBlock> blocks;
  mutable std::shared_ptr<const PlanNotes> notes;  // not thread-safe: each rank uses its own plan

  double area() const {
    double pairs = 0;
    for (const QueryBlock& block : blocks) pairs += block.area();
    return pairs;
  }
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_TILE_H_
