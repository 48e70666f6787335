// Batches of similar lengths (group_by_length): reorders an epoch's examples like
// LengthGroupedSampler of Transformers 4.57.
//
//   batches per group = min(n / (4 batch), 50), at least 1
//
// The order is divided into groups of that many batches, and each group is sorted by descending
// length (stable). Then the first example of the first group is swapped with the longest example of
// all, so that the step that needs the most memory comes first. Cost: O(n log n).
#ifndef MOONRING_DATA_STEPS_LENGTH_GROUPS_H_
#define MOONRING_DATA_STEPS_LENGTH_GROUPS_H_

#include <cstdint>
#include <vector>

namespace moonring::data {

// `order`: a permutation of all examples; lengths[example]: its length; `batch` >= 1.
std::vector<int64_t> GroupByLength(std::vector<int64_t> order, const std::vector<int64_t>& lengths,
                                   int64_t batch);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_LENGTH_GROUPS_H_
