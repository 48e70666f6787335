#ifndef MOONRING_MIXERS_HEAD_SHARE_H_
#define MOONRING_MIXERS_HEAD_SHARE_H_

// Which heads of a gated delta rule a rank computes when they are spread over P ranks, and which
// channels of q, k and v it needs for them.
//
//   rank p computes value heads [p H / P, (p + 1) H / P), rounded down: any H and P, some ranks may
//       have none; and needs the key heads that those read.
//
// Where P divides the key heads each rank has key heads with all their value heads. Where a border
// falls inside a group that key head goes to both sides; for P > Hk each goes to about P / Hk
// ranks.

#include <memory>

#include "comm/row_exchange.h"
#include "mixers/planned_mixing.h"

namespace moonring::mixers {

struct HeadShare {
  int64_t values_begin = 0, values_end = 0, keys_begin = 0, keys_end = 0;
  int64_t values() const { return values_end - values_begin; }
  int64_t keys() const { return keys_end - keys_begin; }
};

// Throws where the key heads do not divide the value heads.
HeadShare HeadShareOf(const DeltaCall& call, int rank, int ranks);

// The channels [q | k | v] of each rank's heads, and its value heads.
std::shared_ptr<const comm::ColumnSplit> ChannelsOfHeads(const DeltaCall& call, int ranks);
std::shared_ptr<const comm::ColumnSplit> ValueHeads(const DeltaCall& call, int ranks);

// For each key head of a rank's own rule the one that it is of the rank's, [key heads of the rule]:
// the rule wants equally many value heads for each, so one whose group is cut by a border may be
// there several times. Undefined: they are the rank's as they are.
at::Tensor RepeatedKeys(const DeltaCall& call, const HeadShare& share);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_HEAD_SHARE_H_
