#ifndef MOONRING_ATTENTION_KERNELS_STRIP_PLAN_H_
#define MOONRING_ATTENTION_KERNELS_STRIP_PLAN_H_

// Plans the products of attention with materialized scores (strip_varlen_attention.h): which query
// rows are multiplied by which keys in one product. Runs only on the host.
//
//   whole    a tile of at most `pairs` (query, key) pairs is not cut. Tiles whose lengths differ by
//            a factor of 2 at most share a product, padded to the longest, which bounds the padding
//   strips   a larger tile is cut by queries. A strip's queries are multiplied by all keys that
//            they attend to in one product, so that no softmax is merged; more than kMostKeys keys
//            are processed in pieces, whose results are merged. In a masked tile a strip has the
//            keys from the first to the last that one of its queries attends to
//
// Cost: O(tiles log tiles + strips).

#include <cstdint>
#include <vector>

#include "attention/kernels/tile.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

// Query i of a range attends to key j of another range where i < queries, j < keys and i + low <= j
// <= i + high.
struct SeenPairs {
  int64_t queries = 0, keys = 0, low = 0, high = 0;
};

// The keys of a product: one range for each range of queries.
struct StripKeys {
  std::vector<RowRange> keys;
  std::vector<SeenPairs> seen;
};

struct Strip {
  std::vector<RowRange> queries;
  std::vector<StripKeys> pieces;  // in the order in which they are merged; a strip of several
                                  // ranges has one
};

inline constexpr int64_t kMostKeys = 8192;  // what the row kernel reads in one pass (score_rows.h)

// `pairs`: the maximal number of (query, key) pairs of a product for each query head. A strip has
// up to 64 queries even where that makes more pairs.
std::vector<Strip> PlanStrips(const VarlenTiles& tiles, int64_t pairs);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_STRIP_PLAN_H_
