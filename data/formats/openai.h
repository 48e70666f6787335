// Rows of the openai format -> conversations, by the rules of formats/messages.h; tools are refused by name.
//
//   sft   {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
//
// Keys and roles are what `columns` and `tags` say; their defaults are sharegpt's.
//
// A peculiarity, copied: "detailed thinking off" is the system text where a row has none, and is added to it after a line feed
// where it says neither "detailed thinking on" nor "detailed thinking off". So a template's own system text, and
// default_system, are never used with this format. Data of the same shape described as sharegpt with `tags` is free of it.
#ifndef MOONRING_DATA_FORMATS_OPENAI_H_
#define MOONRING_DATA_FORMATS_OPENAI_H_

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "data/conversation.h"
#include "data/dataset_info.h"
#include "data/stage.h"

namespace moonring::data {

absl::StatusOr<ConvertedRow> ConvertOpenai(const nlohmann::json& row, const DatasetDescription& description, Stage stage);

}  // namespace moonring::data

#endif  // MOONRING_DATA_FORMATS_OPENAI_H_
