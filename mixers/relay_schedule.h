#ifndef MOONRING_MIXERS_RELAY_SCHEDULE_H_
#define MOONRING_MIXERS_RELAY_SCHEDULE_H_

// Which span of a cut document works on which heads when states are handed on from span to span
// (relay_mixing.h), and what travels for it.
//
//   in round t the span at place i of its document works on group t - i of the heads, where there
//   is such a group; after the round it gives their state to the span at place i + 1
//
// G groups and a longest document of n spans take G + n - 1 rounds. Backward places count from a
// document's last span, and gradients of states travel.
//
// Numbers: d_k d_v for each value head, each way, from each span but the last; in rounds of one
// exchange.

#include <cstdint>
#include <vector>

#include "comm/row_exchange.h"
#include "mixers/span_scan.h"

namespace moonring::mixers {

// Key heads, with their value heads, in as many groups of about the same size as there are keys,
// but no more than four a place: the rounds of filling are a quarter of the others, or less. One
// where no document is cut.
std::vector<int64_t> RelayGroups(const SpanChains& chains, int64_t key_heads);

struct RelayHop {
  SpanChains::Link from, to;
  int64_t group = 0;
};

int64_t RelayRounds(const SpanChains& chains, int64_t groups);

// After a round; on every rank in the same order.
std::vector<RelayHop> HopsAfter(const SpanChains& chains, ScanOrder order, int64_t groups,
                                int64_t round);

// What all rounds have this rank send, as Communicator counts it; `key_bytes`: of the states of a
// key head's value heads.
comm::RowTraffic CountRelay(const SpanChains& chains, ScanOrder order, int64_t key_heads,
                            int64_t key_bytes);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RELAY_SCHEDULE_H_
