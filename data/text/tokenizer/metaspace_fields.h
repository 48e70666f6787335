// The options of Metaspace, in the pre-tokenizer and the decoder of a tokenizer.json, which
// reproduces sentencepiece's handling of spaces.
//
// {replacement, prepend_scheme: first | always | never, split}. Older files have add_prefix_space
// instead; if both are present, they must agree.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_METASPACE_FIELDS_H_
#define MOONRING_DATA_TEXT_TOKENIZER_METASPACE_FIELDS_H_

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

struct MetaspaceFields {
  enum class Prepend { kFirst, kAlways, kNever };
  std::string replacement;  // one character that represents a space, usually U+2581
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};

absl::StatusOr<MetaspaceFields> MetaspaceFieldsFromJson(const nlohmann::json& object,
                                                        absl::string_view where);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_METASPACE_FIELDS_H_
