#include "lua/serve/body_json.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/json_nesting.h"

namespace moonring::serve {
namespace {

constexpr size_t kMostShown = 60;
constexpr double kLargestInteger = 9007199254740992.0;  // 2^53

std::string Below(absl::string_view where, absl::string_view key) {
  return where.empty() ? std::string(key) : absl::StrCat(where, ".", key);
}

// The field's value; null if it is absent and has a fallback.
absl::StatusOr<const Json*> Field(const Json& object, const char* key, absl::string_view wanted,
                                  bool has_fallback, absl::string_view where) {
  if (!object.is_object()) return Unexpected(object, "an object", where);
  const Json* value = Find(object, key);
  if (value == nullptr && !has_fallback) {
    return absl::InvalidArgumentError(
        absl::StrCat(Below(where, key), ": is missing; expected ", wanted));
  }
  return value;
}

}  // namespace

absl::StatusOr<Json> ParseBody(absl::string_view body) {
  if (body.empty()) return absl::InvalidArgumentError("the body is empty; expected JSON");
  RETURN_IF_ERROR(base::CheckJsonNesting(body), "the body");
  try {
    Json value = Json::parse(body.begin(), body.end());
    if (value.is_object()) return value;
    return Unexpected(value, "a JSON object", "the body");
  } catch (const Json::exception& error) {
    absl::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at .."
    if (const size_t end = what.find("] "); end != absl::string_view::npos)
      what.remove_prefix(end + 2);
    return absl::InvalidArgumentError(absl::StrCat("the body is not JSON: ", what));
  }
}

absl::Status Unexpected(const Json& found, absl::string_view wanted, absl::string_view where) {
  std::string shown = found.is_object()  ? "an object"
                      : found.is_array() ? absl::StrCat("a list of ", found.size())
                                         : found.dump(-1, ' ', /*ensure_ascii=*/true,
                                                      Json::error_handler_t::replace);
  if (shown.size() > kMostShown) shown = absl::StrCat(shown.substr(0, kMostShown), "...");
  return absl::InvalidArgumentError(
      absl::StrCat(where, where.empty() ? "" : ": ", "expected ", wanted, ", got ", shown));
}

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<std::string> TextField(const Json& object, const char* key,
                                      std::optional<std::string> fallback, absl::string_view where,
                                      size_t most) {
  ASSIGN_OR_RETURN(const Json* value, Field(object, key, "a text", fallback.has_value(), where));
  if (value == nullptr) return *std::move(fallback);
  if (!value->is_string()) return Unexpected(*value, "a text", Below(where, key));
  const std::string& text = value->get_ref<const std::string&>();
  if (text.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(Below(where, key), ": expected at most ", most, " bytes, got ", text.size()));
  }
  return text;
}

absl::StatusOr<int64_t> IntegerField(const Json& object, const char* key, int64_t least,
                                     std::optional<int64_t> fallback, absl::string_view where) {
  ASSIGN_OR_RETURN(const Json* value,
                   Field(object, key, "an integer", fallback.has_value(), where));
  if (value == nullptr) return *fallback;
  // The whole range of int64 is accepted: a copy of a sampling client in another process numbers
  // its requests from a start of up to 10^18.
  const bool is_int64 =
      value->is_number_integer() && (!value->is_number_unsigned() ||
                                     value->get<uint64_t>() <= std::numeric_limits<int64_t>::max());
  if (is_int64 && value->get<int64_t>() >= least) return value->get<int64_t>();
  const double number = value->is_number_float() ? value->get<double>() : std::nan("");
  if (!(number >= static_cast<double>(least) && number <= kLargestInteger &&
        number == std::floor(number))) {
    return Unexpected(*value, absl::StrCat("an integer of at least ", least), Below(where, key));
  }
  return static_cast<int64_t>(number);
}

absl::StatusOr<bool> BoolField(const Json& object, const char* key, std::optional<bool> fallback,
                               absl::string_view where) {
  ASSIGN_OR_RETURN(const Json* value,
                   Field(object, key, "true or false", fallback.has_value(), where));
  if (value == nullptr) return *fallback;
  if (!value->is_boolean()) return Unexpected(*value, "true or false", Below(where, key));
  return value->get<bool>();
}

absl::StatusOr<const Json*> ListField(const Json& object, const char* key,
                                      absl::string_view where) {
  ASSIGN_OR_RETURN(const Json* value, Field(object, key, "a list", false, where));
  if (!value->is_array()) return Unexpected(*value, "a list", Below(where, key));
  return value;
}

absl::StatusOr<const Json*> ObjectField(const Json& object, const char* key,
                                        absl::string_view where) {
  ASSIGN_OR_RETURN(const Json* value, Field(object, key, "an object", false, where));
  if (!value->is_object()) return Unexpected(*value, "an object", Below(where, key));
  return value;
}

std::string Written(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace moonring::serve
