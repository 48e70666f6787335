#ifndef MOONRING_DATA_EXAMPLE_IDS_H_
#define MOONRING_DATA_EXAMPLE_IDS_H_

#include <cstdint>
#include <vector>

#include "data/example.h"

namespace moonring::data {

// The distinct ids >= `first` in the examples' documents, ascending. If `first` is the vocabulary
// size, these are the ids without a row in the embedding. Cost: one pass.
std::vector<int32_t> IdsFrom(const std::vector<Example>& examples, int32_t first);

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_IDS_H_
