// UTF-8 by code points. Malformed bytes become U+FFFD, one for each maximal part of a sequence that
// is cut short or cannot be (Unicode 3.9, as Python's errors="replace" and Rust's from_utf8_lossy
// do it); overlong forms and surrogates are malformed.
//
// Cost: one pass, eight bytes at a time where the text is ASCII.
#ifndef MOONRING_DATA_TEXT_UNICODE_UTF8_H_
#define MOONRING_DATA_TEXT_UNICODE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::data {

// Bytes before the first malformed one; text.size() where all is well.
size_t ValidUtf8Prefix(absl::string_view text);

// `text` with U+FFFD for what is malformed.
std::string ReplaceMalformedUtf8(absl::string_view text);

// The code point at text[at], and `at` moved past it. `text` is well-formed and at < text.size().
char32_t NextCodePoint(absl::string_view text, size_t& at);

// Where the code point that ends before text[at] begins. `text` is well-formed and at > 0.
size_t PreviousCodePoint(absl::string_view text, size_t at);

void AppendCodePoint(char32_t code_point, std::string& text);

// Unicode's White_Space.
bool IsWhiteSpace(char32_t code_point);

// Where the white space at an end of a well-formed text begins or ends.
size_t BeginOfTrailingSpace(absl::string_view text);
size_t EndOfLeadingSpace(absl::string_view text);

// A letter, mark, digit, connector or joiner: Unicode's \w (UTS 18, annex C).
bool IsWordCharacter(char32_t code_point);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_UNICODE_UTF8_H_
