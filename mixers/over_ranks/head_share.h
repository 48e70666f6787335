#ifndef MOONRING_MIXERS_OVER_RANKS_HEAD_SHARE_H_
#define MOONRING_MIXERS_OVER_RANKS_HEAD_SHARE_H_

// Which heads of a gated delta rule a rank computes when they are spread over P ranks, and which
// channels of q, k and v it needs for them.
//
//   rank p computes value heads [p H / P, (p + 1) H / P), rounded down: any H and P; some ranks may
//       have none; and needs the key heads that these read.
//
// Where P divides the key heads, each rank has key heads with all their value heads. Where a
// boundary falls inside a group, both ranks get its key head; for P > Hk each key head goes to
// about P / Hk ranks.

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

// The channels [q | k | v] of each rank's heads, and its value heads.
std::shared_ptr<const comm::ColumnSplit> ChannelsOfHeads(const DeltaCall& call, int ranks);
std::shared_ptr<const comm::ColumnSplit> ValueHeads(const DeltaCall& call, int ranks);

// The rank's key head that each key head of its local rule copies, [key heads of the rule]. The
// rule needs equally many value heads for each key head, so a key head whose group is cut by a
// boundary may occur several times. Undefined: the rank's key heads are used unchanged.
at::Tensor RepeatedKeys(const DeltaCall& call, const HeadShare& share);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_HEAD_SHARE_H_
