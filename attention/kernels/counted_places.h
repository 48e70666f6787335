#ifndef MOONRING_ATTENTION_KERNELS_COUNTED_PLACES_H_
#define MOONRING_ATTENTION_KERNELS_COUNTED_PLACES_H_

// A sample of context ranks for estimating a strategy's cost. A micro-batch takes as long as its
// slowest rank, so the sample has the context ranks that are likely to be the slowest.

#include <set>
#include <vector>

#include "comm/layout.h"

namespace moonring::attention {

inline constexpr int kCountedPlaces = 32;

// Selects at most kCountedPlaces context ranks: a third evenly spaced (with the first and the
// last), a third with the greatest `areas` (query-key pairs), and a third that send and receive the
// most rows. Returns all context ranks where there are no more than kCountedPlaces. Cost: O(spans
// log context ranks).
std::set<int> CountedPlaces(const comm::Layout& layout, const std::vector<double>& areas);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_COUNTED_PLACES_H_
