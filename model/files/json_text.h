#ifndef MOONRING_MODEL_FILES_JSON_TEXT_H_
#define MOONRING_MODEL_FILES_JSON_TEXT_H_

// Parses JSON files. Errors name the file, and the line or the key:
//
//   models/x/config.json: line 3, column 12: syntax error while parsing value - ...
//   models/x/config.json: hidden_size: expected a whole number, got "576"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/text/ordered_json_fwd.h"
#include "nlohmann/json_fwd.hpp"

namespace moonring::model {

// Parses `text`; error messages begin with `where`. INVALID_ARGUMENT, with line and column, if
// `text` is not JSON, if an object has a key twice, or if the nesting is too deep
// (base/text/json_nesting.h).
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view where);

// Parses like ParseJson, and refuses a text whose outermost value is not an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view where);

// Converts numbers that Python writes but JSON does not allow (Infinity, -Infinity, NaN) to the
// form of Transformers 5, {"__float__": "Infinity"}. Without such numbers, the text is unchanged.
std::string WithSpeltNumbers(absl::string_view text);
// Converts `value` to JSON text with Python's numbers: the reverse of WithSpeltNumbers.
std::string DumpForPython(base::OrderedJson value);

// Typed access to the members of one JSON object. A null counts as missing. Error messages begin
// with "<where>: <key>: ". The JSON object must outlive the JsonFields.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  const nlohmann::json* Find(absl::string_view key) const;  // null if missing or null
  bool Has(absl::string_view key) const;                    // true also if the value is null

  absl::StatusOr<int64_t> Int(absl::string_view key) const;
  absl::StatusOr<std::optional<int64_t>> OptionalInt(absl::string_view key) const;
  absl::StatusOr<double> Number(absl::string_view key, double otherwise) const;
  absl::StatusOr<bool> Bool(absl::string_view key, bool otherwise) const;
  absl::StatusOr<std::string> String(absl::string_view key, absl::string_view otherwise) const;

  absl::Status Missing(absl::string_view key) const;
  absl::Status Wrong(absl::string_view key,
                     absl::string_view wanted) const;  // "... expected <wanted>, got <its value>"

 private:
  const nlohmann::json& object_;
  std::string where_;
};

// `value` as one short line, for error messages.
std::string ShownJson(const nlohmann::json& value);

// At most `limit` bytes of `text`, for messages that quote a file. Unprintable bytes are shown as
// \x0a, and "..." marks where the text was cut.
std::string Shown(absl::string_view text, size_t limit = 80);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_JSON_TEXT_H_
