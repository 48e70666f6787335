#include "base/text/json_nesting.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace moonring::base {

absl::Status CheckJsonNesting(absl::string_view text) {
  if (text.size() > static_cast<size_t>(kMostJsonBytes))
    return absl::InvalidArgumentError(
        absl::StrCat("has ", text.size(), " bytes of JSON; expected at most ", kMostJsonBytes));
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    if (in_string) {
      if (byte == '\\') ++at;
      if (byte == '"') in_string = false;
    } else if (byte == '"') {
      in_string = true;
    } else if (byte == '[' || byte == '{') {
      if (++depth > kMostJsonNesting) {
        return absl::InvalidArgumentError(absl::StrCat(
            "lists and objects nested more than ", kMostJsonNesting, " deep (at byte ", at, ")"));
      }
    } else if (byte == ']' || byte == '}') {
      --depth;
    }
  }
  return absl::OkStatus();
}

}  // namespace moonring::base
