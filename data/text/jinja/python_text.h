// Methods of Python's str on well-formed UTF-8: indices, lengths and widths are in code points.
// Case conversion is per code point (Unicode's simple mappings, and SS for a capital sharp s),
// unlike in Python for the few letters that convert to several code points.
#ifndef MOONRING_DATA_TEXT_JINJA_PYTHON_TEXT_H_
#define MOONRING_DATA_TEXT_JINJA_PYTHON_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/jinja/budget.h"

namespace moonring::data::jinja {

std::u32string CodePoints(absl::string_view text);
std::string Utf8(const std::u32string& code_points);
int64_t LengthOf(absl::string_view text);
bool IsAscii(absl::string_view text);
bool IsSpace(char32_t code_point);  // as Python's str.isspace

// Removes white space, or any of `characters`, at the ends.
enum class Side { kBoth, kLeft, kRight };
absl::string_view Strip(absl::string_view text,
                        const std::optional<std::string>& characters = std::nullopt,
                        Side side = Side::kBoth);

// Splits at each `separator`, or at runs of white space if no separator is given: at most `most`
// times from the left or the right, or everywhere if `most` is negative.
std::vector<std::string> Split(Budget& budget, const std::string& text,
                               const std::optional<std::string>& separator, int64_t most,
                               bool from_right);
std::vector<std::string> SplitLines(Budget& budget, const std::string& text, bool keep_ends);

// Replaces `from` by `to` at most `most` times, or everywhere if `most` is negative.
std::string Replace(Budget& budget, const std::string& text, const std::string& from,
                    const std::string& to, int64_t most);

// Find: index of the first or last occurrence of `part` in code points [begin, end) (as in slices),
// or -1. Count: number of occurrences. Part: the slice itself.
struct Range {
  std::optional<int64_t> begin, end;
};
int64_t Find(Budget& budget, const std::string& text, const std::string& part, const Range& range,
             bool last);
int64_t Count(Budget& budget, const std::string& text, const std::string& part, const Range& range);
std::string Part(const std::string& text, const Range& range);

// Escapes & < > ' " for HTML.
std::string Escaped(Budget& budget, const std::string& text);

std::string Upper(const std::string& text);
std::string Lower(const std::string& text);
std::string Capitalize(const std::string& text);
std::string Title(const std::string& text);

// Whether the text is not empty and all its code points are of the class "alpha", "digit", "alnum",
// "space", "numeric", "decimal" or "ascii"; or its letters are "upper" or "lower".
bool IsAll(const std::string& text, absl::string_view what);

// Pads to at least `width` code points on the given side (kBoth: centred, like str.center).
std::string Pad(Budget& budget, const std::string& text, int64_t width, char32_t fill, Side filled);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_PYTHON_TEXT_H_
