#ifndef MOONRING_ATTENTION_COUNTED_PLACES_H_
#define MOONRING_ATTENTION_COUNTED_PLACES_H_

// The places on the context axis that stand for all of them where a strategy's cost is estimated: a
// micro-batch takes as long as its slowest rank, so those that are likely to be that one.

#include <set>
#include <vector>

#include "comm/layout.h"

namespace moonring::attention {

inline constexpr int kCountedPlaces = 32;

// At most kCountedPlaces places: a third of them evenly spread (the first and the last among them),
// a third those with the greatest areas, the others those whose rows travel most. All of them where
// there are no more. Cost: O(spans log places).
std::set<int> CountedPlaces(const comm::Layout& layout, const std::vector<double>& areas);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_COUNTED_PLACES_H_
