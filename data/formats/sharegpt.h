// Rows of the sharegpt format -> conversations, by the rules of formats/messages.h.
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
// `tools` is a JSON array as text. `tags` may rename keys and roles, so that {"role": "user",
// "content": "Hi"} is read too.
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
