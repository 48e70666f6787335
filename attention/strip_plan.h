#ifndef MOONRING_ATTENTION_STRIP_PLAN_H_
#define MOONRING_ATTENTION_STRIP_PLAN_H_

// Which rows of tiles meet which keys in one product, where scores are written out
// (strip_varlen_attention.h). Host only.
//
//   whole    tiles of at most `pairs` pairs of rows are whole; those that are at most twice as long
//            as another go together, filled up to the longest, so that no more than a part of the
//            products is of rows that are not there
//   strips   of larger ones some query rows meet all keys that they see, so that there is nothing
//            to merge; beyond kMostKeys keys these come in pieces, which are. A masked tile's strip
//            has the keys from the first to the last that one of its queries sees
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

// `pairs`: of rows that one product may have, for each query head.
std::vector<Strip> PlanStrips(const VarlenTiles& tiles, int64_t pairs);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRIP_PLAN_H_
