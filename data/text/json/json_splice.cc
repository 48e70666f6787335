#include "data/text/json/json_splice.h"

#include <optional>
#include <utility>

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace moonring::data {
namespace {

constexpr absl::string_view kSpace = " \t\r\n";

// The index after the string that begins at `at`.
size_t EndOfString(absl::string_view text, size_t at) {
  for (++at; text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

// The index after the value that begins at `at` and the white space that follows it.
size_t EndOfValue(absl::string_view text, size_t at) {
  int depth = 0;
  while (true) {
    const char byte = text[at];
    if (byte == '"') {
      at = EndOfString(text, at);
      continue;
    }
    if (depth == 0 && (byte == ',' || byte == '}' || byte == ']')) return at;
    if (byte == '{' || byte == '[') ++depth;
    if (byte == '}' || byte == ']') --depth;
    ++at;
  }
}

}  // namespace

std::string WithField(absl::string_view object, absl::string_view key, absl::string_view value) {
  const size_t begin = object.find('{') + 1;
  size_t at = object.find_first_not_of(kSpace, begin);
  // position of the value; the last one of duplicate keys, which JSON parsers use
  std::optional<std::pair<size_t, size_t>> last;
  while (object[at] == '"') {
    const size_t key_end = EndOfString(object, at);
    const bool found = object.substr(at + 1, key_end - at - 2) == key;
    const size_t value_begin = object.find_first_not_of(kSpace, object.find(':', key_end) + 1);
    const size_t end = EndOfValue(object, value_begin);
    if (found) last = {value_begin, object.find_last_not_of(kSpace, end - 1) + 1};
    if (object[end] != ',') break;
    at = object.find_first_not_of(kSpace, end + 1);
  }
  if (last.has_value())
    return absl::StrCat(object.substr(0, last->first), value, object.substr(last->second));
  const bool empty = object[object.find_first_not_of(kSpace, begin)] == '}';
  return absl::StrCat(object.substr(0, begin), "\"", key, "\": ", value, empty ? "" : ", ",
                      object.substr(begin));
}

}  // namespace moonring::data
