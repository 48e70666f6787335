#ifndef MOONRING_BASE_TEXT_VISIBLE_TEXT_H_
#define MOONRING_BASE_TEXT_VISIBLE_TEXT_H_

// Text of unknown origin on its way to a terminal. A control character in it is a command to the
// terminal: it retitles the window, writes the clipboard, hides lines.

#include <string>

#include "absl/strings/string_view.h"

namespace moonring::base {

// The same text with what a terminal would obey spelt out, and nothing else changed:
//   control characters but newline and tab, and DEL       \x1b
//   U+0080 to U+009F (C1: U+009B begins a sequence too)   \u009b
//   U+202A to U+202E, U+2066 to U+2069 (they reorder      \u202e
//   what is shown)
//   bytes that are not UTF-8                              \xff
// Its own output stays as it is. Linear in the text.
std::string VisibleText(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_VISIBLE_TEXT_H_
