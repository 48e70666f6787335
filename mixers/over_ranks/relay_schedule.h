#ifndef MOONRING_MIXERS_OVER_RANKS_RELAY_SCHEDULE_H_
#define MOONRING_MIXERS_OVER_RANKS_RELAY_SCHEDULE_H_

// The schedule of relay mixing (relay_mixing.h): which span of a cut document (a contiguous run of
// its tokens on one rank) is computed for which heads in which round, and what is sent after each
// round.
//
//   in round t the span at index i of its document is computed for group t - i of the heads, if
//   such a group exists; after the round the state of these heads is sent to the span at index i +
//   1
//
// With G groups and n spans of the longest document there are G + n - 1 rounds. In the backward
// indices count from a document's last span, and gradients of states are sent.
//
// Each span except a document's last one sends the state of each value head, d_v x d_k numbers,
// each way. There is one exchange per round.

#include <cstdint>
#include <vector>

#include "comm/row_exchange.h"
#include "mixers/rule/span_scan.h"

namespace moonring::mixers {

// Divides the key heads (with their value heads) into groups of about equal size, and returns the
// sizes. There is one group per key head, but at most four groups per span of the longest document,
// which is enough to keep the rounds in which the pipeline fills below a quarter of the others. One
// group where no document is cut.
std::vector<int64_t> RelayGroups(const SpanChains& chains, int64_t key_heads);

struct RelayHop {
  SpanChains::Link from, to;
  int64_t group = 0;
};

int64_t RelayRounds(const SpanChains& chains, int64_t groups);

// The states that are sent after a round, in the same order on every rank.
std::vector<RelayHop> HopsAfter(const SpanChains& chains, ScanOrder order, int64_t groups,
                                int64_t round);

// The bytes and steps of this rank's sends in all rounds, as the Communicator counts them.
// `key_bytes`: bytes of the states of one key head's value heads.
comm::RowTraffic CountRelay(const SpanChains& chains, ScanOrder order, int64_t key_heads,
                            int64_t key_bytes);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_RELAY_SCHEDULE_H_
