// Rows of the alpaca format -> conversations.
//
//   sft   {"instruction": "Sum up.", "input": "Text", "output": "Short.", "system": "Be brief.",
//         "history": [["Hi", "Hello"]]}
//   pt    {"text": "A document."}, "columns": {"prompt": "text"}
//   dpo   {"instruction": "Q", "chosen": "good", "rejected": "bad"}
//   kto   {"instruction": "Q", "output": "A", "kto_tag": true}
//
// `tools` is a JSON array as text. The history's pairs come first, then prompt and query joined by
// a line feed (an empty one is left out, both empty is an empty message), then the answer. A key
// that a row lacks is null. A row whose answer, tag, or one of its two answers is null is skipped;
// an empty answer is one. Fails where a value has a wrong type, naming the key; the caller adds
// file and row.
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
