// Batches of like lengths (group_by_length): an epoch's order of examples, put into groups by
// length as Transformers 4.57's LengthGroupedSampler does.
//
//   batches a group = min(n / (4 batch), 50), 1 at least
//
// The order is cut into groups of so many batches; each is sorted by length, the longest first,
// equal ones in their order; then the first of the first group changes places with the first of the
// group that has the longest of all, so that the step that takes most memory comes first. Cost:
// O(n log n).
#ifndef MOONRING_DATA_STEPS_LENGTH_GROUPS_H_
#define MOONRING_DATA_STEPS_LENGTH_GROUPS_H_

#include <cstdint>
#include <vector>

namespace moonring::data {

// `order`: of all examples, of which lengths[example] is the length; `batch` >= 1.
std::vector<int64_t> GroupByLength(std::vector<int64_t> order, const std::vector<int64_t>& lengths,
                                   int64_t batch);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_LENGTH_GROUPS_H_
