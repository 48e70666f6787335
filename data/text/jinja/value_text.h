// Converts values to text like Python: str, repr, and json.dumps as called by Transformers' filter
// tojson.
#ifndef MOONRING_DATA_TEXT_JINJA_VALUE_TEXT_H_
#define MOONRING_DATA_TEXT_JINJA_VALUE_TEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

std::string FloatText(double value);         // repr(float)
std::string Quoted(absl::string_view text);  // repr(str)

// str(value): strings unchanged; undefined values become "".
std::string TextOf(Budget& budget, const Value& value);
std::string ReprOf(Budget& budget, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent;                     // indentation of one level
  std::optional<std::string> item_separator, separator;  // between items; after a key
};
std::string JsonOf(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_VALUE_TEXT_H_
