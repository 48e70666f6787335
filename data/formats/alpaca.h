// Converts rows of the alpaca format to conversations.
//
//   sft   {"instruction": "Sum up.", "input": "Text", "output": "Short.", "system": "Be brief.",
//         "history": [["Hi", "Hello"]]}
//   pt    {"text": "A document."}, "columns": {"prompt": "text"}
//   dpo   {"instruction": "Q", "chosen": "good", "rejected": "bad"}
//   kto   {"instruction": "Q", "output": "A", "kto_tag": true}
//
// `tools` is a string with a JSON array. The conversation consists of the history's pairs, then
// prompt and query joined by a line feed (an empty one is omitted; if both are empty, so is the
// message), then the answer. Missing keys are null. A row is skipped if its answer, its tag or one
// of its two answers is null; an empty string is a valid answer. Values of a wrong type are errors
// that name the key; the caller adds file and row.
#ifndef MOONRING_DATA_FORMATS_ALPACA_H_
#define MOONRING_DATA_FORMATS_ALPACA_H_

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/formats/converted_row.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertAlpaca(const OrderedJson& row,
                                           const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_ALPACA_H_
