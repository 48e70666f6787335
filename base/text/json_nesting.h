// How long a JSON text is, and how deep its values lie within one another, asked before it is
// parsed.
//
// The parser itself needs no stack for depth, but what is done with its values does: writing,
// copying, comparing them goes one call deeper a level, so that a file of a million brackets would
// end the process. Cost: one pass over the text.
#ifndef MOONRING_BASE_TEXT_JSON_NESTING_H_
#define MOONRING_BASE_TEXT_JSON_NESTING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

inline constexpr int kMostJsonNesting = 500;

// Parsed, a text takes some ten times its bytes.
inline constexpr int64_t kMostJsonBytes = int64_t{256} << 20;

// INVALID_ARGUMENT where lists and objects lie deeper than that, or the text is longer than that.
// `text` need not be well-formed: then this holds of as much of it as a parser accepts.
absl::Status CheckJsonNesting(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_JSON_NESTING_H_
