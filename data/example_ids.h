#ifndef MOONRING_DATA_EXAMPLE_IDS_H_
#define MOONRING_DATA_EXAMPLE_IDS_H_

#include <cstdint>
#include <vector>

#include "data/example.h"

namespace moonring::data {

// The ids at or above `first` in the examples' documents, each once, ascending: where `first` is
// the size of a vocabulary, those that a model has no row for. Cost: one pass.
std::vector<int32_t> IdsFrom(const std::vector<Example>& examples, int32_t first);

}  // namespace moonring::data

#endif  // MOONRING_DATA_EXAMPLE_IDS_H_
