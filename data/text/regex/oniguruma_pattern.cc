#include "data/text/regex/oniguruma_pattern.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status/status_macros.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

// White space, for use inside a character class.
constexpr absl::string_view kSpace =
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{"
    "3000}";
constexpr absl::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// Outside a class, Oniguruma's \w also matches the superscripts and fractions of Latin-1 (but not
// of other blocks).
constexpr absl::string_view kWordAlone =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe";

absl::Status Unsupported(absl::string_view construct) {
  return absl::UnimplementedError(absl::StrCat("\"", construct, "\" is not supported"));
}
absl::Status Unfinished(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("ends inside ", what));
}

// PCRE2's name of a property: general categories and a few binary properties unchanged, scripts as
// sc:NAME.
std::string PropertyName(absl::string_view name) {
  const std::string key =
      absl::StrReplaceAll(absl::AsciiStrToLower(name), {{" ", ""}, {"_", ""}, {"-", ""}});
  static constexpr std::array<std::pair<absl::string_view, absl::string_view>, 17> kNames = {{
      {"any", "Any"},
      {"letter", "L"},
      {"mark", "M"},
      {"number", "N"},
      {"punctuation", "P"},
      {"symbol", "S"},
      {"separator", "Z"},
      {"other", "C"},
      {"alpha", "Alphabetic"},
      {"alphabetic", "Alphabetic"},
      {"space", "White_Space"},
      {"whitespace", "White_Space"},
      {"digit", "Nd"},
      {"lower", "Lowercase"},
      {"lowercase", "Lowercase"},
      {"upper", "Uppercase"},
      {"uppercase", "Uppercase"},
  }};
  for (const auto& [from, to] : kNames) {
    if (key == from) return std::string(to);
  }
  if (key.size() <= 2) return key;  // a general category, case-insensitive in PCRE2
  return absl::StrCat("sc:", name);
}

class Rewriter {
 public:
  explicit Rewriter(absl::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < in_.size()) {
      const bool begins = begins_group_;
      begins_group_ = false;
      RETURN_IF_ERROR(Step(begins));
    }
    return std::move(out_);
  }

 private:
  bool Sees(absl::string_view text) const { return in_.substr(at_, text.size()) == text; }
  bool Take(absl::string_view text) {
    if (!Sees(text)) return false;
    at_ += text.size();
    return true;
  }
  absl::string_view TakeCharacter() {
    const size_t begin = at_;
    NextCodePoint(in_, at_);
    return in_.substr(begin, at_ - begin);
  }
  void BeginAtom() { atom_ = out_.size(); }

  absl::Status Step(bool begins_group) {
    switch (in_[at_]) {
      case '(':
        return OpenGroup(begins_group);
      case ')':
        atom_ = groups_.empty() ? 0 : groups_.back();
        if (!groups_.empty()) groups_.pop_back();
        out_.push_back(in_[at_++]);
        return absl::OkStatus();
      case '|':
        out_.push_back(in_[at_++]);
        return absl::OkStatus();
      case '[':
        BeginAtom();
        return Class(/*depth=*/0);
      case '*':
      case '+':
      case '?':
        out_.push_back(in_[at_++]);
        if (Sees("+") || Sees("?")) out_.push_back(in_[at_++]);
        return absl::OkStatus();
      case '{':
        Interval();
        return absl::OkStatus();
      case '\\':
        BeginAtom();
        return Escape(/*in_class=*/false);
      default:
        BeginAtom();
        absl::StrAppend(&out_, TakeCharacter());
        return absl::OkStatus();
    }
  }

  absl::Status OpenGroup(bool begins_group) {
    const size_t begin = at_;
    absl::string_view opening = "(?:";
    bool switches = false;  // an option that applies to the rest of the group
    if (Take("(?")) {
      static constexpr std::array<absl::string_view, 8> kOpenings = {":",  "=",  "!",  ">",
                                                                     "<=", "<!", "i:", "-i:"};
      const auto found = std::find_if(kOpenings.begin(), kOpenings.end(),
                                      [&](absl::string_view o) { return Sees(o); });
      // The option is supported only at the beginning of a group: elsewhere, Oniguruma applies it
      // to the following alternatives as well.
      switches = found == kOpenings.end() && Sees("i)") && begins_group;
      if (found == kOpenings.end() && !switches) return Unsupported(in_.substr(begin, 4));
      at_ += switches ? 2 : found->size();
      opening = in_.substr(begin, at_ - begin);
    } else {
      ++at_;  // non-capturing: captures are not used
    }
    if (!switches) groups_.push_back(out_.size());
    absl::StrAppend(&out_, opening);
    begins_group_ = true;
    return absl::OkStatus();
  }

  // Rewrites a repetition {n}, {n,}, {n,m} or {,m}; a brace in any other form is a literal.
  void Interval() {
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < in_.size() && absl::ascii_isdigit(in_[end])) ++end;
      return in_.substr(begin, end - begin);
    };
    const absl::string_view least = digits();
    const bool comma = end < in_.size() && in_[end] == ',';
    if (comma) ++end;
    const absl::string_view most = comma ? digits() : least;
    if (end >= in_.size() || in_[end] != '}' || (least.empty() && most.empty())) {
      BeginAtom();
      out_.append("\\{");
      ++at_;
      return;
    }
    at_ = end + 1;
    absl::StrAppend(&out_, "{", least.empty() ? "0" : least, comma ? "," : "", comma ? most : "",
                    "}");
    if (Sees("+") ||
        (!comma && Sees("?"))) {  // in Oniguruma not possessive or lazy, but a second quantifier
      out_.insert(atom_, "(?:");
      out_.push_back(')');
    } else if (Sees("?")) {
      out_.push_back(in_[at_++]);
    }
  }

  // Rewrites a character class. A nested class adds its members to the outer one.
  absl::Status Class(int depth) {
    constexpr int kMostDepth = 100;  // each level uses stack
    if (depth > kMostDepth)
      return Unsupported(absl::StrCat("more than ", kMostDepth, " classes within one another"));
    const bool nested = depth > 0;
    const size_t begin = at_++;
    if (!nested) out_.push_back('[');
    if (Take("^")) {
      if (nested) return Unsupported(in_.substr(begin, 2));
      out_.push_back('^');
    }
    if (Sees("]")) return Unsupported(in_.substr(begin, at_ + 1 - begin));
    while (at_ < in_.size()) {
      if (Take("]")) {
        if (!nested) out_.push_back(']');
        return absl::OkStatus();
      }
      if (Sees("&&") || Sees("[:")) return Unsupported(in_.substr(at_, 2));
      if (Sees("[")) {
        RETURN_IF_ERROR(Class(depth + 1));
      } else if (Sees("\\")) {
        RETURN_IF_ERROR(Escape(/*in_class=*/true));
      } else {
        absl::StrAppend(&out_, TakeCharacter());
      }
    }
    return Unfinished("a class");
  }

  // Appends `members` to the current character class or, outside of a class, as a separate class.
  void Members(bool in_class, absl::string_view members, bool negated = false) {
    in_class ? absl::StrAppend(&out_, members)
             : absl::StrAppend(&out_, negated ? "[^" : "[", members, "]");
  }

  absl::Status Escape(bool in_class) {
    const size_t begin = at_++;
    if (at_ >= in_.size()) return Unfinished("an escape");
    const absl::string_view character = TakeCharacter();
    const absl::string_view escape = in_.substr(begin, at_ - begin);
    switch (character[0]) {
      case 's':
        Members(in_class, kSpace);
        return absl::OkStatus();
      case 'S':
        in_class ? absl::StrAppend(&out_, "\\P{White_Space}")
                 : Members(false, kSpace, /*negated=*/true);
        return absl::OkStatus();
      case 'w':
        Members(in_class, in_class ? kWord : kWordAlone);
        return absl::OkStatus();
      case 'W':
        if (in_class) return Unsupported("\\W in a class");
        Members(false, kWordAlone, /*negated=*/true);
        return absl::OkStatus();
      case 'd':
      case 'D':
        absl::StrAppend(&out_, character == "d" ? "\\p{Nd}" : "\\P{Nd}");
        return absl::OkStatus();
      case 'v':
        absl::StrAppend(&out_, "\\x0b");
        return absl::OkStatus();
      case 'p':
      case 'P':
        return Property(escape);
      case 'x':
      case 'u':
        return CodePoint(escape);
      default:
        break;
    }
    if (absl::ascii_isalnum(static_cast<unsigned char>(character[0])) &&
        !absl::StrContains(in_class ? "rntfea" : "rntfeaAz", character)) {
      return Unsupported(escape);
    }
    absl::StrAppend(&out_, static_cast<unsigned char>(character[0]) < 0x80 ? escape : character);
    return absl::OkStatus();
  }

  absl::Status Property(absl::string_view escape) {
    if (!Take("{")) return Unsupported(escape);
    bool negated = escape == "\\P";
    if (Take("^")) negated = !negated;
    const size_t close = in_.find('}', at_);
    if (close == absl::string_view::npos) return Unfinished("a property");
    absl::StrAppend(&out_, negated ? "\\P{" : "\\p{", PropertyName(in_.substr(at_, close - at_)),
                    "}");
    at_ = close + 1;
    return absl::OkStatus();
  }

  absl::Status CodePoint(absl::string_view escape) {
    size_t length = escape == "\\u" ? 4 : 2;
    const bool braced = escape == "\\x" && Take("{");
    if (braced) {
      const size_t close = in_.find('}', at_);
      if (close == absl::string_view::npos) return Unfinished("a code point");
      length = close - at_;
    }
    const absl::string_view digits = in_.substr(at_, length);
    uint32_t value = 0;
    if (digits.size() != length || !absl::SimpleHexAtoi(digits, &value))
      return Unsupported(absl::StrCat(escape, digits));
    if (escape == "\\x" && !braced && value >= 0x80)
      return Unsupported(absl::StrCat(escape, digits));  // a byte of a multi-byte character
    absl::StrAppend(&out_, "\\x{", absl::Hex(value), "}");
    at_ += length + (braced ? 1 : 0);
    return absl::OkStatus();
  }

  const absl::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // offset in out_ of the item to which a quantifier would apply
  std::vector<size_t> groups_;  // offset in out_ of each open group
  bool begins_group_ = true;
};

}  // namespace

absl::StatusOr<std::string> RewriteOnigurumaPattern(absl::string_view pattern) {
  return Rewriter(pattern).Run();
}

}  // namespace moonring::data
