// The common prefix that documents of a step may share (comm/sequence.h: shared prefixes): the
// leading tokens with equal ids and positions and without labels in all documents, except for the
// last such token. That one stays in each document, because it predicts the document's next token.
// Cost: O(tokens).
#ifndef MOONRING_DATA_STEPS_PREFIXES_H_
#define MOONRING_DATA_STEPS_PREFIXES_H_

#include <cstdint>
#include <vector>

#include "data/example.h"

namespace moonring::data {

// The length of the shared prefix; 0 if there is none or fewer than two documents.
int64_t SharedTokens(const std::vector<const Document*>& documents);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_PREFIXES_H_
