#ifndef MOONRING_ATTENTION_TILE_H_
#define MOONRING_ATTENTION_TILE_H_

// Tiles: the pieces that attention over a packed stream is made of, as ranges of rows, decided on the host.
//
// A tile is a range of query rows against a range of key rows of one document. It is either full (every query sees
// every key) or causal (the same tokens on both sides, so it is square and its diagonal is the tokens'). Nothing else
// occurs, so kernels that differ in how they align a non-square causal mask agree here. What is empty is decided here
// and never from values: no tile has zero rows.

#include <cstdint>
#include <vector>

namespace moonring::attention {

enum class TileKind { kFull, kCausal };

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t rows() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

struct KeyTile {
  RowRange keys;
  TileKind kind = TileKind::kFull;
  friend bool operator==(const KeyTile&, const KeyTile&) = default;
};

// One block of queries and the keys it meets, in the order in which they are merged.
struct QueryBlock {
  int64_t document = 0;
  RowRange queries;
  std::vector<KeyTile> tiles;

  // Query-key pairs seen.
  double area() const {
    double pairs = 0;
    for (const KeyTile& tile : tiles) {
      const double full = static_cast<double>(queries.rows()) * static_cast<double>(tile.keys.rows());
      pairs += tile.kind == TileKind::kFull ? full : (full + static_cast<double>(queries.rows())) / 2;
    }
    return pairs;
  }
};

// The tiles between a buffer of query rows and a buffer of key rows. Blocks do not overlap in their queries.
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
