#include "data/text/jinja/python_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_replace.h"
#include "data/text/jinja/text_search.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data::jinja {
namespace {

constexpr char32_t kSharpS = 0xDF;

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool IsLetter(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool IsUpperLetter(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)); }
bool IsLowerLetter(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)); }
bool IsTitleLetter(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LT; }
bool IsCased(char32_t c) { return IsUpperLetter(c) || IsLowerLetter(c) || IsTitleLetter(c); }
bool IsDecimal(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }
bool IsSuperscript(char32_t c) {
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0x2070 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089);
}
bool IsNumeric(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

void AppendUpper(char32_t c, std::string& text) {
  if (c == kSharpS) {
    text += "SS";
  } else {
    AppendCodePoint(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))),
                    text);
  }
}
void AppendTitle(char32_t c, std::string& text) {
  if (c == kSharpS) {
    text += "Ss";
  } else {
    AppendCodePoint(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))),
                    text);
  }
}
void AppendLower(char32_t c, std::string& text) {
  AppendCodePoint(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), text);
}

bool IsLineEnd(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

// Overhead charged per element of a split text, in addition to its bytes.
constexpr int64_t kPieceBytes = 64;

std::vector<std::string> SplitAtSpace(Budget& budget, const std::string& text, int64_t most,
                                      bool from_right) {
  std::vector<std::string> parts;
  absl::string_view rest = Strip(text);
  const Side outer = from_right ? Side::kRight : Side::kLeft;
  while (!rest.empty()) {
    budget.Make(kPieceBytes);
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      // The remaining text keeps the white space at its outer end.
      const absl::string_view kept = Strip(
          from_right ? absl::string_view(text.data(), rest.data() + rest.size() - text.data())
                     : absl::string_view(rest.data(), text.data() + text.size() - rest.data()),
          std::nullopt, outer);
      parts.emplace_back(kept);
      break;
    }
    size_t at = from_right ? rest.size() : 0, cut = at;
    while (from_right ? at > 0 : at < rest.size()) {
      size_t next = from_right ? PreviousCodePoint(rest, at) : at;
      size_t after = next;
      if (IsSpace(NextCodePoint(rest, after))) break;
      at = cut = from_right ? next : after;
    }
    parts.emplace_back(from_right ? rest.substr(cut) : rest.substr(0, cut));
    rest = Strip(from_right ? rest.substr(0, cut) : rest.substr(cut), std::nullopt, outer);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

// Byte offsets of a slice given in code points; nullopt if it begins after the end of the text.
std::optional<std::pair<size_t, size_t>> BytesOf(const std::string& text, const Range& range) {
  if (!range.begin.has_value() && !range.end.has_value())
    return std::make_pair(size_t{0}, text.size());
  const int64_t length = LengthOf(text);
  const auto place = [&](std::optional<int64_t> index, int64_t absent) {
    if (!index.has_value()) return absent;
    return *index < 0 ? std::max<int64_t>(0, *index + length) : *index;
  };
  const int64_t begin = place(range.begin, 0), end = std::min(place(range.end, length), length);
  if (begin > length || begin > end) return std::nullopt;
  size_t at = 0, from = 0;
  for (int64_t i = 0; i < end; ++i) {
    if (i == begin) from = at;
    NextCodePoint(text, at);
  }
  return std::make_pair(begin == end ? at : from, at);
}

}  // namespace

std::u32string CodePoints(absl::string_view text) {
  std::u32string code_points;
  for (size_t at = 0; at < text.size();) code_points += NextCodePoint(text, at);
  return code_points;
}

std::string Utf8(const std::u32string& code_points) {
  std::string text;
  for (const char32_t c : code_points) AppendCodePoint(c, text);
  return text;
}

int64_t LengthOf(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsSpace(char32_t code_point) {
  return IsWhiteSpace(code_point) || (code_point >= 0x1C && code_point <= 0x1F);
}

absl::string_view Strip(absl::string_view text, const std::optional<std::string>& characters,
                        Side side) {
  absl::flat_hash_set<char32_t> these;
  for (size_t at = 0; characters.has_value() && at < characters->size();)
    these.insert(NextCodePoint(*characters, at));
  const auto goes = [&](char32_t c) {
    return characters.has_value() ? these.contains(c) : IsSpace(c);
  };
  size_t begin = 0, end = text.size();
  while (side != Side::kRight && begin < end) {
    size_t next = begin;
    if (!goes(NextCodePoint(text, next))) break;
    begin = next;
  }
  while (side != Side::kLeft && begin < end) {
    const size_t previous = PreviousCodePoint(text, end);
    size_t at = previous;
    if (!goes(NextCodePoint(text, at))) break;
    end = previous;
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string> Split(Budget& budget, const std::string& text,
                               const std::optional<std::string>& separator, int64_t most,
                               bool from_right) {
  if (!separator.has_value()) return SplitAtSpace(budget, text, most, from_right);
  if (separator->empty()) Fail("empty separator");
  std::vector<std::string> parts;
  size_t begin = 0, end = text.size();
  if (most != 0) {
    ForEachPlace(budget, text, *separator, from_right, [&](size_t at) {
      budget.Make(kPieceBytes);
      const size_t after = at + separator->size();
      parts.push_back(from_right ? text.substr(after, end - after)
                                 : text.substr(begin, at - begin));
      (from_right ? end : begin) = from_right ? at : after;
      return most < 0 || static_cast<int64_t>(parts.size()) < most;
    });
  }
  parts.push_back(text.substr(begin, end - begin));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitLines(Budget& budget, const std::string& text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    if (!IsLineEnd(NextCodePoint(text, at))) continue;
    if (text[end] == '\r' && at < text.size() && text[at] == '\n') ++at;
    budget.Make(kPieceBytes);
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string Replace(Budget& budget, const std::string& text, const std::string& from,
                    const std::string& to, int64_t most) {
  std::vector<size_t> places;
  const auto add = [&](size_t place) {
    if (static_cast<int64_t>(places.size()) == most) return false;
    budget.Make(static_cast<int64_t>(sizeof(size_t) + to.size()));
    places.push_back(place);
    return true;
  };
  if (from.empty()) {  // before each code point, and at the end
    budget.Scan(static_cast<int64_t>(text.size()));
    for (size_t at = 0; add(at) && at < text.size();) NextCodePoint(text, at);
  } else {
    ForEachPlace(budget, text, from, false, add);
  }
  budget.Make(static_cast<int64_t>(text.size()));
  std::string replaced;
  size_t begin = 0;
  for (const size_t place : places) {
    replaced.append(text, begin, place - begin).append(to);
    begin = place + from.size();
  }
  return replaced.append(text, begin);
}

int64_t Find(Budget& budget, const std::string& text, const std::string& part, const Range& range,
             bool last) {
  const auto bytes = BytesOf(text, range);
  if (!bytes.has_value()) return -1;
  const absl::string_view searched =
      absl::string_view(text).substr(bytes->first, bytes->second - bytes->first);
  const size_t at = FindPlace(budget, searched, part, last);
  return at == absl::string_view::npos
             ? -1
             : LengthOf(absl::string_view(text).substr(0, bytes->first + at));
}

std::string Part(const std::string& text, const Range& range) {
  const auto bytes = BytesOf(text, range);
  return bytes.has_value() ? text.substr(bytes->first, bytes->second - bytes->first)
                           : std::string();
}

int64_t Count(Budget& budget, const std::string& text, const std::string& part,
              const Range& range) {
  const auto bytes = BytesOf(text, range);
  if (!bytes.has_value()) return 0;
  const absl::string_view searched =
      absl::string_view(text).substr(bytes->first, bytes->second - bytes->first);
  if (part.empty()) return LengthOf(searched) + 1;
  int64_t count = 0;
  ForEachPlace(budget, searched, part, false, [&](size_t) { return ++count > 0; });
  return count;
}

std::string Escaped(Budget& budget, const std::string& text) {
  constexpr int64_t kMostGrowth = 5;
  budget.Scan(static_cast<int64_t>(text.size()));
  budget.Make(static_cast<int64_t>(text.size()), kMostGrowth);
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}});
}

std::string Upper(const std::string& text) {
  std::string upper;
  for (size_t at = 0; at < text.size();) AppendUpper(NextCodePoint(text, at), upper);
  return upper;
}

std::string Lower(const std::string& text) {
  std::string lower;
  for (size_t at = 0; at < text.size();) AppendLower(NextCodePoint(text, at), lower);
  return lower;
}

std::string Capitalize(const std::string& text) {
  std::string capitalized;
  for (size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const char32_t c = NextCodePoint(text, at);
    if (first) {
      AppendTitle(c, capitalized);
    } else {
      AppendLower(c, capitalized);
    }
  }
  return capitalized;
}

std::string Title(const std::string& text) {
  std::string title;
  bool after_letter = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    if (after_letter) {
      AppendLower(c, title);
    } else {
      AppendTitle(c, title);
    }
    after_letter = IsCased(c);
  }
  return title;
}

bool IsAll(const std::string& text, absl::string_view what) {
  if (what == "ascii") return IsAscii(text);
  const auto all = [&](const auto& is) {
    for (size_t at = 0; at < text.size();) {
      if (!is(NextCodePoint(text, at))) return false;
    }
    return true;
  };
  if (what == "upper" || what == "lower") {
    const bool upper = what == "upper";
    bool any = false;
    return all([&](char32_t c) {
             any = any || (upper ? IsUpperLetter(c) : IsLowerLetter(c));
             return !IsTitleLetter(c) && !(upper ? IsLowerLetter(c) : IsUpperLetter(c));
           }) &&
           any;
  }
  using Is = bool (*)(char32_t);
  const Is is = what == "alpha"     ? &IsLetter
                : what == "space"   ? &IsSpace
                : what == "decimal" ? &IsDecimal
                : what == "digit" ? Is([](char32_t c) { return IsDecimal(c) || IsSuperscript(c); })
                : what == "numeric" ? &IsNumeric
                                    : Is([](char32_t c) { return IsLetter(c) || IsNumeric(c); });
  return !text.empty() && all(is);
}

std::string Pad(Budget& budget, const std::string& text, int64_t width, char32_t fill,
                Side filled) {
  const int64_t missing = width - LengthOf(text);
  if (missing <= 0) return text;
  budget.Make(missing, 4);
  const int64_t left = filled == Side::kLeft    ? missing
                       : filled == Side::kRight ? 0
                                                : missing / 2 + (missing & width & 1);
  const std::u32string before(left, fill), after(missing - left, fill);
  return Utf8(before) + text + Utf8(after);
}

}  // namespace moonring::data::jinja
