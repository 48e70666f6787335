// Reads a pattern of tokenizer.json: {"Regex": pattern} or {"String": text}. Fails as
// data/text/json/json_fields.h and data/text/regex/regex.h do, naming the position.
#ifndef MOONRING_DATA_TEXT_REGEX_PATTERN_FIELD_H_
#define MOONRING_DATA_TEXT_REGEX_PATTERN_FIELD_H_

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/regex/regex.h"

namespace moonring::data {

absl::StatusOr<std::shared_ptr<const Regex>> PatternField(const nlohmann::json& object,
                                                          const char* key, absl::string_view where);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_REGEX_PATTERN_FIELD_H_
