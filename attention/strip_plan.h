#ifndef MOONRING_ATTENTION_STRIP_PLAN_H_
#define MOONRING_ATTENTION_STRIP_PLAN_H_

// Which query rows are multiplied by which keys in one product, where attention's scores are
// materialized (strip_varlen_attention.h). Runs on the host alone.
//
//   whole    a tile of at most `pairs` (query, key) pairs is not cut. Tiles whose lengths differ by
//            a factor of 2 at most share a product, padded to the longest, which bounds the padding
//   strips   a larger tile is cut by queries. A strip's queries meet all keys that they see in one
//            product, so that no softmax is merged; more than kMostKeys keys come in pieces, whose
//            results are merged. A masked tile's strip has the keys from the first to the last that
//            one of its queries sees
//
// Cost: O(tiles log tiles + strips).

#include <cstdint>
#include <vector>

#include "attention/tile.h"
#include "attention/varlen_attention.h"

namespace moonring::attention {

// Query i of a range sees key j of one where i < queries, j < keys and i + low <= j <= i + high.
struct SeenPairs {
  int64_t queries = 0, keys = 0, low = 0, high = 0;
};

// Keys that ranges of queries meet, one range for each.
struct StripKeys {
  std::vector<RowRange> keys;
  std::vector<SeenPairs> seen;
};

struct Strip {
  std::vector<RowRange> queries;
  std::vector<StripKeys> pieces;  // in the order in which they are merged; of several ranges, one
};

inline constexpr int64_t kMostKeys = 8192;  // that a row's kernel reads once (score_rows.h)

// `pairs`: how many (query, key) pairs a product may have for each query head. A strip has up to 64
// queries even where that makes more pairs.
std::vector<Strip> PlanStrips(const VarlenTiles& tiles, int64_t pairs);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRIP_PLAN_H_
