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
//
// A band, the keys of a sliding window, is made of these three. Nothing else occurs, so kernels
// that differ in how they align a mask that is not square agree here. What is empty is decided here
// and never from values: no tile has zero rows, and in none does a query see no key.

#include <cstdint>
#include <vector>

namespace moonring::attention {

enum class TileKind { kFull, kCausal, kWindowEdge };

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

  // Query-key pairs seen.
  double area() const {
    const double q = static_cast<double>(queries.rows()), k = static_cast<double>(keys.rows());
    return kind == TileKind::kFull ? q * k : q * (q + 1) / 2;
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

// The tiles between a buffer of query rows and a buffer of key rows. Blocks do not overlap in their
// queries.
struct TilePlan {
  int64_t query_rows = 0;
  int64_t key_rows = 0;
  std::vector<QueryBlock> blocks;

  double area() const {
    double pairs = 0;
    for (const QueryBlock& block : blocks) pairs += block.area();
    return pairs;
  }
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_TILE_H_
