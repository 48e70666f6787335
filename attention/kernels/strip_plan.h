#ifndef MOONRING_ATTENTION_KERNELS_STRIP_PLAN_H_
#define MOONRING_ATTENTION_KERNELS_STRIP_PLAN_H_

// Plans the products of attention with materialized scores (strip_varlen_attention.h): which query
// rows are multiplied by which keys in one product. Runs only on the host.
//
//   whole    a tile of at most `pairs` (query, key) pairs is not cut. Several such tiles share a
//            product, padded to the longest tile; their lengths differ by a factor of 2 at most,
//            which bounds the padding
//   strips   a larger tile is cut by queries. One product multiplies a strip's queries by all keys
//            that they attend to, so that no partial softmax is merged. Where these are more than
//            kMostKeys keys, they are processed in pieces, whose results are merged. In a masked
//            tile, a strip's keys are those from the first to the last key that any of its queries
//            attends to
//
// Cost: O(tiles log tiles + strips).

#include <cstdint>
#include <vector>

#include "attention/kernels/tile.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

// Which pairs of a query range and a key range are not masked: query i attends to key j where i <
// queries, j < keys and i + low <= j <= i + high.
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
  std::vector<StripKeys> pieces;  // in the order in which their results are merged; a strip of
                                  // several query ranges has one piece
};

inline constexpr int64_t kMostKeys = 8192;  // the most keys that the kernel reads in one pass
                                            // (score_rows.h)

// `pairs`: the maximal number of (query, key) pairs of one product for each query head. It may be
// exceeded by strips of 64 queries, which are not cut further.
std::vector<Strip> PlanStrips(const VarlenTiles& tiles, int64_t pairs);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_STRIP_PLAN_H_
