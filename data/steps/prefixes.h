// Which beginning documents of a step may share (comm/sequence.h: shared prefixes): the tokens that
// are the same in all of them, ids and positions, and that none learns, but for the last of these,
// with which each document goes on: what it predicts is theirs. Cost: O(tokens).
#ifndef MOONRING_DATA_STEPS_PREFIXES_H_
#define MOONRING_DATA_STEPS_PREFIXES_H_

#include <cstdint>
#include <vector>

#include "data/example.h"

namespace moonring::data {

// How many first tokens; 0 where there is nothing to share, or there are fewer than two documents.
int64_t SharedTokens(const std::vector<const Document*>& documents);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_PREFIXES_H_
