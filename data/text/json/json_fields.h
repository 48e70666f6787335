// Reads the fields of a parsed JSON object, with error messages that name the position: `where.key:
// expected a boolean, found "yes"`.
//
// A fallback is returned for a key that is absent or null; without a fallback, both are errors. All
// errors are INVALID_ARGUMENT.
#ifndef MOONRING_DATA_TEXT_JSON_JSON_FIELDS_H_
#define MOONRING_DATA_TEXT_JSON_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

// Fails with `where:LINE:COLUMN: message` for malformed text (both from 1, columns in bytes), and
// for text that is nested too deeply (base/text/json_nesting.h).
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view where);

// An error `where: expected WANTED, found VALUE` (VALUE is shortened).
absl::Status WrongType(const nlohmann::json& found, absl::string_view wanted,
                       absl::string_view where);

absl::StatusOr<bool> BoolField(const nlohmann::json& object, const char* key,
                               std::optional<bool> fallback, absl::string_view where);
absl::StatusOr<int64_t> IntegerField(const nlohmann::json& object, const char* key,
                                     absl::string_view where);
absl::StatusOr<std::string> StringField(const nlohmann::json& object, const char* key,
                                        absl::string_view where);
absl::StatusOr<std::string> CharacterField(const nlohmann::json& object, const char* key,
                                           absl::string_view where);  // a string of one code point
absl::StatusOr<const nlohmann::json*> ArrayField(const nlohmann::json& object, const char* key,
                                                 absl::string_view where);
absl::StatusOr<const nlohmann::json*> ObjectField(const nlohmann::json& object, const char* key,
                                                  absl::string_view where);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_JSON_JSON_FIELDS_H_
