// Limits the length of a JSON text and the nesting depth of its values, checked before it is
// parsed.
//
// The parser itself needs no stack per level, but writing, copying and comparing its values recurse
// once per level, so that a file of a million brackets would crash the process. Cost: one pass over
// the text.
#ifndef MOONRING_BASE_TEXT_JSON_NESTING_H_
#define MOONRING_BASE_TEXT_JSON_NESTING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

inline constexpr int kMostJsonNesting = 500;

// The maximum length of a text. When parsed, it takes about ten times as many bytes of memory.
inline constexpr int64_t kMostJsonBytes = int64_t{256} << 20;

// INVALID_ARGUMENT if lists and objects are nested more deeply than kMostJsonNesting, or the text
// is longer than kMostJsonBytes. If `text` is not well-formed, the check covers as much of it as a
// parser accepts.
absl::Status CheckJsonNesting(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_JSON_NESTING_H_
