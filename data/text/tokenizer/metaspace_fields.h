// The switches of Metaspace, the pre-tokenizer and the decoder of a tokenizer.json: how
// sentencepiece's way with spaces is written there.
//
// {replacement, prepend_scheme: first | always | never, split}; before prepend_scheme there was
// add_prefix_space, which may only confirm it now.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_METASPACE_FIELDS_H_
#define MOONRING_DATA_TEXT_TOKENIZER_METASPACE_FIELDS_H_

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

struct MetaspaceFields {
  enum class Prepend { kFirst, kAlways, kNever };
  std::string replacement;  // one character, U+2581 as a rule: stands for a space
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};

absl::StatusOr<MetaspaceFields> MetaspaceFieldsFromJson(const nlohmann::json& object,
                                                        absl::string_view where);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_METASPACE_FIELDS_H_
