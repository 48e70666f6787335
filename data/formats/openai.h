// Converts rows of the openai format to conversations (common rules: formats/messages.h).
//
//   sft   {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content":
//         "Hi"}, {"role": "assistant", "content": "Hello"}]}
//
// Keys and roles are those in `columns` and `tags`; the defaults are sharegpt's. An assistant's
// tool_calls are a function call: the list of their `function` objects. Consecutive messages of the
// tool role are one observation. Observations at the end of a conversation are dropped, except as
// the prompt of a pair or of a prompt row. `tools` is a JSON array, or a string of one. (If rows
// have different members, LLaMA-Factory's table has nulls for the missing ones and writes them;
// here nulls in calls and tools are ignored.)
//
// LLaMA-Factory's behaviour for system texts is copied. Rows without tools: a missing system text
// becomes "detailed thinking off"; if the system text contains neither "detailed thinking on" nor
// "detailed thinking off", the latter is appended after a line feed. Rows with tools: a line feed
// is appended to the system text. A template's own system text and default_system are therefore
// never used with this format. To avoid this, describe the data as sharegpt with `tags`.
#ifndef MOONRING_DATA_FORMATS_OPENAI_H_
#define MOONRING_DATA_FORMATS_OPENAI_H_

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/formats/converted_row.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertOpenai(const OrderedJson& row,
                                           const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_OPENAI_H_
