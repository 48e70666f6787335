#ifndef MOONRING_ATTENTION_KERNELS_COUNTED_PLACES_H_
#define MOONRING_ATTENTION_KERNELS_COUNTED_PLACES_H_

// A sample of context ranks for estimating a strategy's cost. A micro-batch takes as long as its
// slowest rank, so the sample has the context ranks that are likely to be the slowest.

#include <set>
#include <vector>

#include "comm/layout.h"

namespace moonring::attention {

inline constexpr int kCountedPlaces = 32;

// At most kCountedPlaces context ranks: a third evenly spaced (the first and the last included), a
// third with the greatest areas, and the rest whose rows travel most. All of them where there are
// no more than that. Cost: O(spans log context ranks).
std::set<int> CountedPlaces(const comm::Layout& layout, const std::vector<double>& areas);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_COUNTED_PLACES_H_
