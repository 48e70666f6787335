#ifndef MOONRING_ATTENTION_TILE_H_
#define MOONRING_ATTENTION_TILE_H_

// Tiles: the pieces that attention over a packed stream is made of, as ranges of rows, decided on
// the host.
//
// A tile is a range of query rows of one document against a range of key rows of the same, or of
// another one that a mask lets it see. Its kind says which
// keys query row i of the tile sees, j counting the tile's key rows:
//
//   full          all
//   causal        j <= i: the same tokens on both sides, so the tile is square and its diagonal is
//                 the tokens'
//   window edge   j >= i, square too: key 0 is the last that query 0 still sees
//   band          the queries are the last of the keys' tokens, and each sees those up to its own,
//                 under a window W the last W of them: i + N - M - W < j <= i + N - M
//
// The keys of a sliding window are made of the first three, or of a band where the kernel knows
// them (TileGrid::kBands). Nothing else occurs, so kernels that differ in how they align a mask
// that is not square agree on all but bands. What is empty is decided here
// and never from values: no tile has zero rows, and in none does a query see no key.

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

  // Query-key pairs seen.
  double area() const {
    const double q = static_cast<double>(queries.rows()), k = static_cast<double>(keys.rows());
    if (kind == TileKind::kFull) return q * k;
    if (kind != TileKind::kBand) return q * (q + 1) / 2;
    // The first query sees k - q + 1 keys, and each one more than the last, up to the window.
    const double whole = window > 0 ? std::clamp(static_cast<double>(window) - (k - q), 0.0, q) : q;
    return whole * (k - q) + whole * (whole + 1) / 2 + (q - whole) * static_cast<double>(window);
  }
  friend bool operator==(const TileRows&, const TileRows&) = default;
};

// One block of queries and the tiles of its rows, in the order in which they are merged.
struct QueryBlock {
  int64_t document = 0;  // theirs; under a mask Mask::family: blocks with another share no key
  RowRange queries;
  std::vector<TileRows> tiles;

  double area() const {
    double pairs = 0;
    for (const TileRows& tile : tiles) pairs += tile.area();
    return pairs;
  }
};

// What a runner makes of a plan at its first use and leaves with it: as indices and offsets on a
// device, which so are made and copied once for all layers, forward and backward.
class PlanNotes {
 public:
  virtual ~PlanNotes() = default;
};

// The tiles between a buffer of query rows and a buffer of key rows. Blocks do not overlap in their
// queries. Not changed once a runner has had it.
struct TilePlan {
  int64_t query_rows = 0;
  int64_t key_rows = 0;
  std::vector<QueryBlock> blocks;
  mutable std::shared_ptr<const PlanNotes> notes;  // a rank's own: one thread at a time

  double area() const {
    double pairs = 0;
    for (const QueryBlock& block : blocks) pairs += block.area();
    return pairs;
  }
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_TILE_H_
