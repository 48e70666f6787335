#ifndef MOONRING_LUA_SERVE_BODY_JSON_H_
#define MOONRING_LUA_SERVE_BODY_JSON_H_

// A request's body as JSON, and its fields. Errors: INVALID_ARGUMENT, `WHERE.KEY: expected WANTED,
// got VALUE`, the value shortened. A key that is null counts as absent.

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::serve {

using Json = nlohmann::json;

// Parses a body that must be an object. Limits: base/text/json_nesting.h.
absl::StatusOr<Json> ParseBody(absl::string_view body);

// Returns the error described above. `where` is the place of the value; "": the body itself.
absl::Status Unexpected(const Json& found, absl::string_view wanted, absl::string_view where);

// The value of a key; null if it is absent.
const Json* Find(const Json& object, const char* key);

// Fields are required unless a fallback is given. A text may have at most `most` bytes.
inline constexpr size_t kMostText = 1024;
absl::StatusOr<std::string> TextField(const Json& object, const char* key,
                                      std::optional<std::string> fallback = std::nullopt,
                                      absl::string_view where = "", size_t most = kMostText);
// An integer that is at least `least`; 3.0 is accepted as 3.
absl::StatusOr<int64_t> IntegerField(const Json& object, const char* key, int64_t least,
                                     std::optional<int64_t> fallback = std::nullopt,
                                     absl::string_view where = "");
absl::StatusOr<bool> BoolField(const Json& object, const char* key,
                               std::optional<bool> fallback = std::nullopt,
                               absl::string_view where = "");
absl::StatusOr<const Json*> ListField(const Json& object, const char* key,
                                      absl::string_view where = "");
absl::StatusOr<const Json*> ObjectField(const Json& object, const char* key,
                                        absl::string_view where = "");

// Writes JSON; bytes that are not UTF-8 become U+FFFD.
std::string Written(const Json& value);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_BODY_JSON_H_
