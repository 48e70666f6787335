#ifndef MOONRING_BASE_TEXT_VISIBLE_TEXT_H_
#define MOONRING_BASE_TEXT_VISIBLE_TEXT_H_

// Makes text from unknown sources safe to print on a terminal. A control character in it is a
// command to the terminal: it can change the window's title, write the clipboard, or hide lines.

#include <string>

#include "absl/strings/string_view.h"

namespace moonring::base {

// The same text with what a terminal would interpret written as escapes, and nothing else changed:
//   control characters except newline and tab, and DEL    \x1b
//   U+0080 to U+009F (C1: U+009B begins a sequence too)   \u009b
//   U+202A to U+202E, U+2066 to U+2069 (they reorder      \u202e
//   the displayed text)
//   bytes that are not UTF-8                              \xff
// Applied to its own output, it changes nothing. Linear in the text's length.
std::string VisibleText(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_VISIBLE_TEXT_H_
