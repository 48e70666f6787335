#ifndef MOONRING_MIXERS_OVER_RANKS_RELAY_SCHEDULE_H_
#define MOONRING_MIXERS_OVER_RANKS_RELAY_SCHEDULE_H_

// The schedule of relay mixing (relay_mixing.h): which span of a cut document works on which heads
// in which round, and what is sent after it.
//
//   in round t the span at index i of its document works on group t - i of the heads, if that
//   exists; after the round it sends their state to the span at index i + 1
//
// With G groups and n spans of the longest document there are G + n - 1 rounds. In the backward
// indices count from a document's last span, and gradients of states are sent.
//
// Sent: d_k d_v numbers for each value head, each way, from each span but the last; one exchange
// per round.

#include <cstdint>
#include <vector>

#include "comm/row_exchange.h"
#include "mixers/rule/span_scan.h"

namespace moonring::mixers {

// Sizes of the groups of key heads (with their value heads): about equal, and as many groups as
// there are key heads but at most four per span of the longest document, so that the pipeline's
// filling is a quarter of the other rounds or less. One group where no document is cut.
std::vector<int64_t> RelayGroups(const SpanChains& chains, int64_t key_heads);

struct RelayHop {
  SpanChains::Link from, to;
  int64_t group = 0;
};

int64_t RelayRounds(const SpanChains& chains, int64_t groups);

// The sends after a round, in the same order on every rank.
std::vector<RelayHop> HopsAfter(const SpanChains& chains, ScanOrder order, int64_t groups,
                                int64_t round);

// The traffic of this rank in all rounds, as the Communicator counts it. `key_bytes`: bytes of the
// states of one key head's value heads.
comm::RowTraffic CountRelay(const SpanChains& chains, ScanOrder order, int64_t key_heads,
                            int64_t key_bytes);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_RELAY_SCHEDULE_H_
