// Rows of the alpaca format -> conversations.
//
//   {"instruction": "Sum up.", "input": "Text", "output": "Short.", "system": "Be brief.", "history": [["Hi", "Hello"]]}
//
// The history's pairs come first, then prompt and query joined by a line feed (an empty one is left out, both empty is an
// empty message), then the response. A key that a row lacks is null. A row whose response is null is skipped; an empty
// response is one. Fails where a value has a wrong type, naming the key; the caller adds file and row.
#ifndef MOONRING_DATA_FORMATS_ALPACA_H_
#define MOONRING_DATA_FORMATS_ALPACA_H_

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/conversation.h"
#include "data/dataset_info.h"

namespace moonring::data {

// What supervised training on this format cannot use yet is refused here, before any row is read.
absl::Status CheckAlpaca(const DatasetDescription& description);

absl::StatusOr<ConvertedRow> ConvertAlpaca(const nlohmann::json& row, const Columns& columns);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_ALPACA_H_
