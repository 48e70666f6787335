#include "data/text/json/json_fields.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/json_nesting.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

using nlohmann::json;

absl::StatusOr<const json*> Field(const json& object, const char* key, absl::string_view wanted,
                                  absl::string_view where) {
  if (!object.is_object()) return WrongType(object, "an object", where);
  const auto found = object.find(key);
  if (found == object.end())
    return absl::InvalidArgumentError(absl::StrCat(where, ": has no \"", key, "\" (", wanted, ")"));
  return &*found;
}

std::string Below(absl::string_view where, absl::string_view key) {
  return absl::StrCat(where, ".", key);
}

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view where) {
  RETURN_IF_ERROR(base::CheckJsonNesting(text), where);
  try {
    return json::parse(text.begin(), text.end());
  } catch (const json::parse_error& error) {
    const absl::string_view before =
        text.substr(0, error.byte == 0 ? 0 : std::min(error.byte - 1, text.size()));
    const size_t newline = before.rfind('\n');
    const size_t column =
        newline == absl::string_view::npos ? before.size() + 1 : before.size() - newline;
    // nlohmann's message is "[json.exception...] parse error at line 1, column 2: what".
    absl::string_view what = error.what();
    if (const size_t place = what.find("column "); place != absl::string_view::npos)
      what.remove_prefix(what.find(": ", place) + 2);
    return absl::InvalidArgumentError(absl::StrCat(
        where, ":", 1 + std::count(before.begin(), before.end(), '\n'), ":", column, ": ", what));
  } catch (const json::out_of_range& error) {  // a number outside the range of double
    absl::string_view what = error.what();
    if (const size_t end = what.find("] "); end != absl::string_view::npos)
      what.remove_prefix(end + 2);
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
  }
}

absl::Status WrongType(const json& found, absl::string_view wanted, absl::string_view where) {
  constexpr size_t kShown = 60;
  std::string shown = found.is_object()  ? "an object"
                      : found.is_array() ? "an array"
                                         : found.dump(-1, ' ', /*ensure_ascii=*/true);
  if (shown.size() > kShown) shown = absl::StrCat(shown.substr(0, kShown), "...");
  return absl::InvalidArgumentError(absl::StrCat(where, ": expected ", wanted, ", found ", shown));
}

absl::StatusOr<bool> BoolField(const json& object, const char* key, std::optional<bool> fallback,
                               absl::string_view where) {
  if (fallback.has_value() && object.is_object() &&
      (!object.contains(key) || object[key].is_null()))
    return *fallback;
  ASSIGN_OR_RETURN(const json* value, Field(object, key, "a boolean", where));
  if (!value->is_boolean()) return WrongType(*value, "a boolean", Below(where, key));
  return value->get<bool>();
}

absl::StatusOr<int64_t> IntegerField(const json& object, const char* key, absl::string_view where) {
  ASSIGN_OR_RETURN(const json* value, Field(object, key, "an integer", where));
  if (!value->is_number_integer()) return WrongType(*value, "an integer", Below(where, key));
  return value->get<int64_t>();
}

absl::StatusOr<std::string> StringField(const json& object, const char* key,
                                        absl::string_view where) {
  ASSIGN_OR_RETURN(const json* value, Field(object, key, "a string", where));
  if (!value->is_string()) return WrongType(*value, "a string", Below(where, key));
  return value->get<std::string>();
}

absl::StatusOr<std::string> CharacterField(const json& object, const char* key,
                                           absl::string_view where) {
  ASSIGN_OR_RETURN(std::string text, StringField(object, key, where));
  size_t at = 0;
  if (!text.empty()) NextCodePoint(text, at);
  if (text.empty() || at < text.size())
    return WrongType(object[key], "one character", Below(where, key));
  return text;
}

absl::StatusOr<const json*> ArrayField(const json& object, const char* key,
                                       absl::string_view where) {
  ASSIGN_OR_RETURN(const json* value, Field(object, key, "an array", where));
  if (!value->is_array()) return WrongType(*value, "an array", Below(where, key));
  return value;
}

absl::StatusOr<const json*> ObjectField(const json& object, const char* key,
                                        absl::string_view where) {
  ASSIGN_OR_RETURN(const json* value, Field(object, key, "an object", where));
  if (!value->is_object()) return WrongType(*value, "an object", Below(where, key));
  return value;
}

}  // namespace moonring::data
