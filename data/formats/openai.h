// Rows of the openai format -> conversations, by the rules of formats/messages.h.
//
//   sft   {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content":
//         "Hi"}, {"role": "assistant", "content": "Hello"}]}
//
// Keys and roles are what `columns` and `tags` say; their defaults are sharegpt's. An assistant's
// tool_calls are a function call: the list of their `function` objects. Messages of the tool's role
// that follow one another are one observation; those that end a conversation are left out, but for
// what a pair or a prompt is to answer. `tools` is a JSON array, or one as text. (Where rows differ
// in shape, LLaMA-Factory's table has nulls for the keys that a row lacks, and writes them; here
// nulls in calls and tools are as if they were not there.)
//
// A peculiarity, copied, of rows without tools: "detailed thinking off" is the system text where a
// row has none, and is added to it after a line feed where it says neither "detailed thinking on"
// nor "detailed thinking off"; with tools, a line feed alone. So a template's own system text, and
// default_system, are never used with this format. Data of the same shape described as sharegpt
// with `tags` is free of it.
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
