// JSON as Python writes it, byte for byte: what peers tokenize is made by json.dumps, str and
// format.
//
// Keys keep their order; of equal keys the last value stands at the first one's place. Not as
// Python: integers beyond 64 bits become floats; escaped surrogates without their other half are
// refused.
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

// json.loads, NaN and Infinity among it. INVALID_ARGUMENT, with what is wrong; text nested too
// deeply (base/text/json_nesting.h) is refused.
absl::StatusOr<OrderedJson> ParseOrderedJson(absl::string_view text);

// json.dumps(value, ensure_ascii=False, indent=indent)
std::string PythonJson(const OrderedJson& value, std::optional<int> indent = std::nullopt);

// str(value): a text as it is; True, None; lists and objects with their texts quoted as repr does.
std::string PythonText(const OrderedJson& value);

// bool(value)
bool PythonTruth(const OrderedJson& value);

// Whether it is the number NaN.
bool IsNan(const OrderedJson& value);

// The field of an object, or null where there is none.
const OrderedJson& FieldOrNull(const OrderedJson& object, const char* key);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_JSON_PYTHON_JSON_H_
