// Converts rows of the sharegpt format to conversations (common rules: formats/messages.h).
//
//   sft   {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}],
//         "system": "..."}
//   dpo   {"conversations": [{"from": "human", "value": "Q"}], "chosen": {"from": "gpt", "value":
//         "good"}, "rejected": {"from": "gpt", "value": "bad"}}
//   kto   {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}],
//         "kto_tag": true}
//   tools {"conversations": [{"from": "human", "value": "Q"}, {"from": "function_call", "value":
//          "{\"name\": \"f\", \"arguments\": {}}"}, {"from": "observation", "value": "3"}, {"from":
//          "gpt", "value": "A"}], "tools": "[{\"name\": \"f\", ...}]"}
//
// `tools` is a string with a JSON array. `tags` can rename keys and roles, so that {"role": "user",
// "content": "Hi"} can be read too.
#ifndef MOONRING_DATA_FORMATS_SHAREGPT_H_
#define MOONRING_DATA_FORMATS_SHAREGPT_H_

#include "absl/status/statusor.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/formats/converted_row.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertSharegpt(const OrderedJson& row,
                                             const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_SHAREGPT_H_
