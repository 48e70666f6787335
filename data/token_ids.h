// Rows that consist of token ids, as `preprocess` writes examples:
//
//   pt, sft   input_ids, labels
//   rm, dpo   chosen_input_ids, chosen_labels, rejected_input_ids, rejected_labels
//   kto       input_ids, labels, kl_input_ids, kl_labels, kto_tag
//
// Labels are unshifted, -100 for tokens that are not in the loss. In pt and sft they may be
// omitted: all tokens are then trained.
#ifndef MOONRING_DATA_TOKEN_IDS_H_
#define MOONRING_DATA_TOKEN_IDS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "data/description/stage.h"
#include "data/example.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

// Whether a row consists of token ids.
bool HasTokenIds(const OrderedJson& row);

// Reads the row's documents and tag. INVALID_ARGUMENT for columns of another stage, a list of the
// wrong type, ids outside `vocabulary` (if given), or lists of different lengths.
absl::StatusOr<Example> ReadTokenIds(const OrderedJson& row, Stage stage,
                                     std::optional<int64_t> vocabulary);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TOKEN_IDS_H_
