#ifndef MOONRING_LUA_SERVE_NAME_TEXT_H_
#define MOONRING_LUA_SERVE_NAME_TEXT_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::serve {

// Whether a text is UTF-8, as protobuf's strings and JSON must be: no surrogates, no encoding that
// is longer than necessary, nothing above U+10FFFF.
bool IsUtf8(absl::string_view text);

// INVALID_ARGUMENT for a text that is not UTF-8 or has more than `most` bytes.
absl::Status CheckText(absl::string_view text, size_t most);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_NAME_TEXT_H_
