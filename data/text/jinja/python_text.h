// What Python's str does, on well-formed UTF-8: indices, lengths and widths are in code points.
// Case goes code point by code point (Unicode's simple mappings, and SS for a capital sharp s): not
// as Python, the few letters whose other case is more than one.
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
bool IsSpace(char32_t code_point);  // str.isspace

// Without what stands at its ends: white space, or any of `characters`.
enum class Side { kBoth, kLeft, kRight };
absl::string_view Strip(absl::string_view text,
                        const std::optional<std::string>& characters = std::nullopt,
                        Side side = Side::kBoth);

// At each `separator` or, where there is none, between runs of white space; at most `most` times
// where that is not negative, from the left or the right.
std::vector<std::string> Split(Budget& budget, const std::string& text,
                               const std::optional<std::string>& separator, int64_t most,
                               bool from_right);
std::vector<std::string> SplitLines(Budget& budget, const std::string& text, bool keep_ends);

// At most `most` times where that is not negative.
std::string Replace(Budget& budget, const std::string& text, const std::string& from,
                    const std::string& to, int64_t most);

// Where `part` is in code points [begin, end) as slices count them: the first or last place, or -1;
// and how many there are.
struct Range {
  std::optional<int64_t> begin, end;
};
int64_t Find(Budget& budget, const std::string& text, const std::string& part, const Range& range,
             bool last);
int64_t Count(Budget& budget, const std::string& text, const std::string& part, const Range& range);
std::string Part(const std::string& text, const Range& range);

// & < > ' " as HTML has them.
std::string Escaped(Budget& budget, const std::string& text);

std::string Upper(const std::string& text);
std::string Lower(const std::string& text);
std::string Capitalize(const std::string& text);
std::string Title(const std::string& text);

// Whether it has a code point and all of them are such: "alpha", "digit", "alnum", "space",
// "numeric", "decimal", "ascii"; or its letters are: "upper", "lower".
bool IsAll(const std::string& text, absl::string_view what);

// `width` code points at least, filled at the given side (kBoth: centred, as str.center does).
std::string Pad(Budget& budget, const std::string& text, int64_t width, char32_t fill, Side filled);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_PYTHON_TEXT_H_
