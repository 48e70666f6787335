#ifndef MOONRING_MODEL_FILES_JSON_TEXT_H_
#define MOONRING_MODEL_FILES_JSON_TEXT_H_

// JSON texts from disk, read with errors that name the file, the line or the key:
//
//   models/x/config.json: line 3, column 12: syntax error while parsing value - ...
//   models/x/config.json: hidden_size: wanted a whole number, got "576"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/text/ordered_json_fwd.h"
#include "nlohmann/json_fwd.hpp"

namespace moonring::model {

// INVALID_ARGUMENT with line and column where `text` is not JSON, names a key twice in one object
// or is nested too deeply (base/text/json_nesting.h).
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view where);

// As ParseJson; also refuses a text whose outermost value is not an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view where);

// Python writes numbers that JSON does not have: Infinity, -Infinity and NaN. `text` with each as
// Transformers 5 spells it, {"__float__": "Infinity"}; the same text where there is none.
std::string WithSpeltNumbers(absl::string_view text);
// And back, of a value: the text that Python reads.
std::string DumpForPython(base::OrderedJson value);

// The members of one object, typed. A null counts as missing. Errors open with "<where>: <key>: ".
// Borrows the object, which must outlive it.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  const nlohmann::json* Find(absl::string_view key) const;  // null where missing or null
  bool Has(absl::string_view key) const;                    // a null too

  absl::StatusOr<int64_t> Int(absl::string_view key) const;
  absl::StatusOr<std::optional<int64_t>> OptionalInt(absl::string_view key) const;
  absl::StatusOr<double> Number(absl::string_view key, double otherwise) const;
  absl::StatusOr<bool> Bool(absl::string_view key, bool otherwise) const;
  absl::StatusOr<std::string> String(absl::string_view key, absl::string_view otherwise) const;

  absl::Status Missing(absl::string_view key) const;
  absl::Status Wrong(absl::string_view key,
                     absl::string_view wanted) const;  // "... wanted <wanted>, got <its value>"

 private:
  const nlohmann::json& object_;
  std::string where_;
};

// `value` as one short line for an error message.
std::string ShownJson(const nlohmann::json& value);

// At most `limit` bytes of `text`, the unprintable ones as \x0a, "..." where cut: file contents on
// their way into a message.
std::string Shown(absl::string_view text, size_t limit = 80);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_JSON_TEXT_H_
