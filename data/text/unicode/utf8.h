// UTF-8 by code points. Malformed bytes become U+FFFD, one for each maximal subpart of an
// ill-formed sequence (Unicode 3.9, as Python's errors="replace" and Rust's from_utf8_lossy);
// overlong forms and surrogates are malformed.
//
// Cost: one pass, eight bytes at a time for ASCII text.
#ifndef MOONRING_DATA_TEXT_UNICODE_UTF8_H_
#define MOONRING_DATA_TEXT_UNICODE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::data {

// Number of bytes before the first malformed one; text.size() if there is none.
size_t ValidUtf8Prefix(absl::string_view text);

// `text` with malformed sequences replaced by U+FFFD.
std::string ReplaceMalformedUtf8(absl::string_view text);

// The length of the beginning of a text that a further byte could not change: all but the bytes of
// a character that is incomplete at the end.
size_t CompleteUtf8Prefix(absl::string_view text);

// Returns the code point at text[at] and advances `at`. `text` must be well-formed, at <
// text.size().
char32_t NextCodePoint(absl::string_view text, size_t& at);

// Index of the code point that ends before text[at]. `text` must be well-formed, at > 0.
size_t PreviousCodePoint(absl::string_view text, size_t at);

void AppendCodePoint(char32_t code_point, std::string& text);

// Unicode's White_Space property.
bool IsWhiteSpace(char32_t code_point);

// Index at which the trailing white space of a well-formed text begins, or its leading one ends.
size_t BeginOfTrailingSpace(absl::string_view text);
size_t EndOfLeadingSpace(absl::string_view text);

// A letter, mark, digit, connector or joiner: Unicode's \w (UTS 18, annex C).
bool IsWordCharacter(char32_t code_point);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_UNICODE_UTF8_H_
