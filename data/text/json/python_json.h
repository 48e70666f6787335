// Formats JSON values byte for byte like Python: the reference implementations tokenize the output
// of json.dumps, str and format.
//
// Keys keep their order; for duplicate keys, the last value is stored at the position of the first.
// Differences from Python: integers beyond 64 bits become floats; unpaired escaped surrogates are
// rejected.
#ifndef MOONRING_DATA_TEXT_JSON_PYTHON_JSON_H_
#define MOONRING_DATA_TEXT_JSON_PYTHON_JSON_H_

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/text/ordered_json.h"

namespace moonring::data {

using base::OrderedJson;

// json.loads, including NaN and Infinity. INVALID_ARGUMENT for malformed text and for text that is
// nested too deeply (base/text/json_nesting.h).
absl::StatusOr<OrderedJson> ParseOrderedJson(absl::string_view text);

// json.dumps(value, ensure_ascii=False, indent=indent)
std::string PythonJson(const OrderedJson& value, std::optional<int> indent = std::nullopt);

// str(value): strings unchanged; True, None; strings in lists and objects quoted as by repr.
std::string PythonText(const OrderedJson& value);

// bool(value)
bool PythonTruth(const OrderedJson& value);

// Whether the value is the number NaN.
bool IsNan(const OrderedJson& value);

// The field of an object; null if it is missing or `object` is not an object.
const OrderedJson& FieldOrNull(const OrderedJson& object, const char* key);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_JSON_PYTHON_JSON_H_
