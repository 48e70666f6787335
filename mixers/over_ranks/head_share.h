#ifndef MOONRING_MIXERS_OVER_RANKS_HEAD_SHARE_H_
#define MOONRING_MIXERS_OVER_RANKS_HEAD_SHARE_H_

// Which heads of a gated delta rule a rank computes when they are spread over P ranks, and which
// channels of q, k and v it needs for them.
//
//   of H value heads rank p computes [p H / P, (p + 1) H / P), both bounds rounded down, for any H
//       and P (some ranks may have no head), and needs the key heads that these value heads read.
//
// Where P divides the key heads, each rank has key heads with all their value heads. Where a
// boundary between ranks falls inside the group of value heads of one key head, both ranks get this
// key head. For P above the number Hk of key heads each key head goes to about P / Hk ranks.

#include <memory>

#include "comm/row_exchange.h"
#include "mixers/over_ranks/planned_mixing.h"

namespace moonring::mixers {

struct HeadShare {
  int64_t values_begin = 0, values_end = 0, keys_begin = 0, keys_end = 0;
  int64_t values() const { return values_end - values_begin; }
  int64_t keys() const { return keys_end - keys_begin; }
};

// Throws where the number of value heads is not a multiple of the key heads.
HeadShare HeadShareOf(const DeltaCall& call, int rank, int ranks);

// ChannelsOfHeads: for each rank the channels [q | k | v] of its heads. ValueHeads: for each rank
// its value heads.
std::shared_ptr<const comm::ColumnSplit> ChannelsOfHeads(const DeltaCall& call, int ranks);
std::shared_ptr<const comm::ColumnSplit> ValueHeads(const DeltaCall& call, int ranks);

// The delta rule needs equally many value heads for each key head. Where a rank's key heads have
// different numbers of value heads, key heads are repeated. Returns, for each key head of the rule
// on this rank, the index of the rank's key head to copy. Undefined: the rank's key heads are used
// unchanged.
at::Tensor RepeatedKeys(const DeltaCall& call, const HeadShare& share);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_HEAD_SHARE_H_
