#include "data/text/jinja/lexer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "data/text/jinja/python_text.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data::jinja {
namespace {

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) ScanData();
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& what) const {
    throw SyntaxError(line_, absl::StatusCode::kInvalidArgument, what);
  }

  void Add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }
  absl::string_view Rest() const { return absl::string_view(source_).substr(at_); }
  bool Sees(absl::string_view what) const { return absl::StartsWith(Rest(), what); }

  void Advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
  }
  void SkipSpace() { Advance(Rest().size() - Strip(Rest(), std::nullopt, Side::kLeft).size()); }

  // Moves past a closing bracket. `-` also removes the white space after it; without a sign, blocks
  // and comments remove a following line end; `+` removes nothing.
  void EndBracket(absl::string_view bracket, bool trims) {
    const char sign = Rest()[0] == bracket[0] ? ' ' : Rest()[0];
    Advance(bracket.size() + (sign == ' ' ? 0 : 1));
    if (sign == '-') {
      SkipSpace();
    } else if (sign == ' ' && trims && Sees("\n")) {
      Advance(1);
    }
    at_line_begin_ = at_ > 0 && source_[at_ - 1] == '\n';
  }
  bool SeesEnd(absl::string_view bracket, absl::string_view signs) const {
    if (Sees(bracket)) return true;
    return !Rest().empty() && absl::StrContains(signs, Rest()[0]) &&
           absl::StartsWith(Rest().substr(1), bracket);
  }

  // Adds the text before an opening bracket with the sign `sign`. `strips`: for blocks and
  // comments, whose indentation is removed.
  void AddData(absl::string_view text, char sign, bool strips) {
    const size_t whole = text.size();
    if (sign == '-') {
      text = Strip(text, std::nullopt, Side::kRight);
    } else if (sign != '+' && strips) {
      const size_t line = text.rfind('\n') + 1;  // 0 if there is none
      if ((line > 0 || at_line_begin_) && Strip(text.substr(line)).empty())
        text = text.substr(0, line);
    }
    if (!text.empty()) Add(Token::Kind::kData, std::string(text));
    Advance(whole);
  }

  // The length of `{% raw %}` at the current position, including `-` and the white space after it;
  // 0 if it is not there.
  size_t RawBegin() const {
    absl::string_view rest = Rest();
    rest.remove_prefix(2);
    if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
    rest = Strip(rest, std::nullopt, Side::kLeft);
    if (!absl::StartsWith(rest, "raw")) return 0;
    rest = Strip(rest.substr(3), std::nullopt, Side::kLeft);
    if (absl::StartsWith(rest, "%}")) return rest.data() + 2 - Rest().data();
    if (!absl::StartsWith(rest, "-%}")) return 0;
    return Strip(rest.substr(3), std::nullopt, Side::kLeft).data() - Rest().data();
  }

  // Scans text up to the next opening bracket, and the bracket.
  void ScanData() {
    size_t at = at_;
    while ((at = source_.find('{', at)) != std::string::npos &&
           !(at + 1 < source_.size() && absl::StrContains("%#{", source_[at + 1])))
      ++at;
    if (at == std::string::npos) {
      Add(Token::Kind::kData, source_.substr(at_));
      Advance(source_.size() - at_);
      return;
    }
    const char kind = source_[at + 1],
               sign = at + 2 < source_.size() && absl::StrContains("-+", source_[at + 2])
                          ? source_[at + 2]
                          : ' ';
    AddData(Rest().substr(0, at - at_), sign, kind != '{');
    const size_t raw = kind == '%' ? RawBegin() : 0;
    if (raw > 0) return ScanRaw(raw);
    if (kind != '#') Add(kind == '{' ? Token::Kind::kPrintBegin : Token::Kind::kTagBegin, "");
    Advance(sign == ' ' ? 2 : 3);
    if (kind == '#') return ScanComment();
    ScanExpression(kind == '{' ? "}}" : "%}", kind == '{' ? "-" : "-+");
  }

  void ScanComment() {
    const size_t end = Rest().find("#}");
    if (Rest().empty()) return;  // at the end of the source a missing end is not an error
    if (end == absl::string_view::npos) Refuse("Missing end of comment tag");
    const bool sign = end > 0 && absl::StrContains("-+", Rest()[end - 1]);
    Advance(end - (sign ? 1 : 0));
    EndBracket("#}", true);
  }

  void ScanRaw(size_t begin) {
    Advance(begin);
    at_line_begin_ = source_[at_ - 1] == '\n';
    if (Rest().empty()) return;  // a missing end is not an error
    for (size_t at = source_.find("{%", at_); at != std::string::npos;
         at = source_.find("{%", at + 1)) {
      absl::string_view rest = absl::string_view(source_).substr(at + 2);
      const char sign = !rest.empty() && absl::StrContains("-+", rest[0]) ? rest[0] : ' ';
      rest = Strip(rest.substr(sign == ' ' ? 0 : 1), std::nullopt, Side::kLeft);
      if (!absl::StartsWith(rest, "endraw")) continue;
      rest = Strip(rest.substr(6), std::nullopt, Side::kLeft);
      const size_t marks = !rest.empty() && absl::StrContains("-+", rest[0]) ? 1 : 0;
      if (!absl::StartsWith(rest.substr(marks), "%}")) continue;
      AddData(Rest().substr(0, at - at_), sign, true);
      Advance(rest.data() - Rest().data());
      return EndBracket("%}", true);
    }
    Refuse("Missing end of raw directive");
  }

  void ScanExpression(absl::string_view end, absl::string_view signs) {
    std::string open;  // open brackets inside the expression
    while (true) {
      if (open.empty() && SeesEnd(end, signs)) {
        Add(end == "}}" ? Token::Kind::kPrintEnd : Token::Kind::kTagEnd, "");
        return EndBracket(end, end == "%}");
      }
      if (at_ >= source_.size()) return;  // the parser reports what is missing
      size_t next = at_;
      const char32_t c = NextCodePoint(source_, next);
      if (IsSpace(c)) {
        SkipSpace();
      } else if (c >= U'0' && c <= U'9') {
        ScanNumber();
      } else if (IsWordCharacter(c)) {
        size_t to = next;
        for (size_t look = next;
             look < source_.size() && IsWordCharacter(NextCodePoint(source_, look));)
          to = look;
        Add(Token::Kind::kName, source_.substr(at_, to - at_));
        Advance(to - at_);
      } else if (c == U'\'' || c == U'"') {
        ScanText(static_cast<char>(c));
      } else {
        ScanOperator(open);
      }
    }
  }

  void ScanOperator(std::string& open) {
    static constexpr absl::string_view kOperators[] = {
        "//", "**", "==", "!=", "<=", ">=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  "<",  ">", "=", ".", ":", "|", ",", ";"};
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [&](absl::string_view each) { return Sees(each); });
    if (found == std::end(kOperators)) {
      size_t next = at_;
      NextCodePoint(source_, next);
      Refuse(absl::StrCat("unexpected char '", source_.substr(at_, next - at_), "'"));
    }
    const char c = (*found)[0];
    if (absl::StrContains("([{", c)) open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (absl::StrContains(")]}", c)) {
      if (open.empty()) Refuse(absl::StrCat("unexpected '", *found, "'"));
      if (open.back() != c)
        Refuse(absl::StrCat("unexpected '", *found, "', expected '", std::string(1, open.back()),
                            "'"));
      open.pop_back();
    }
    Add(Token::Kind::kOperator, std::string(*found));
    Advance(found->size());
  }

  // The number of bytes of digits, which may be separated by single underscores.
  template <typename IsDigit>
  size_t DigitsAt(size_t at, IsDigit is_digit) const {
    size_t end = at;
    while (end < source_.size() &&
           (is_digit(source_[end]) || (source_[end] == '_' && end > at &&
                                       end + 1 < source_.size() && is_digit(source_[end + 1]))))
      ++end;
    return end - at;
  }

  void ScanNumber() {
    const auto decimal = [](char c) { return absl::ascii_isdigit(c); };
    const char kind = at_ + 1 < source_.size() && source_[at_] == '0'
                          ? absl::ascii_tolower(source_[at_ + 1])
                          : ' ';
    size_t size = DigitsAt(at_, decimal);
    Token::Kind number = Token::Kind::kInteger;
    if (kind == 'x' || kind == 'o' || kind == 'b') {
      const size_t digits = DigitsAt(at_ + 2, [kind](char c) {
        return kind == 'x' ? absl::ascii_isxdigit(c) : c >= '0' && c < (kind == 'o' ? '8' : '2');
      });
      if (digits > 0) size = 2 + digits;
    } else if (at_ == 0 || source_[at_ - 1] != '.') {
      const size_t whole = size;
      const auto at = [&](size_t place) {
        return at_ + place < source_.size() ? absl::ascii_tolower(source_[at_ + place]) : ' ';
      };
      if (at(size) == '.' && DigitsAt(at_ + size + 1, decimal) > 0)
        size += 1 + DigitsAt(at_ + size + 1, decimal);
      if (at(size) == 'e') {
        const size_t sign = at(size + 1) == '+' || at(size + 1) == '-' ? 1 : 0;
        if (const size_t digits = DigitsAt(at_ + size + 1 + sign, decimal); digits > 0)
          size += 1 + sign + digits;
      }
      if (size > whole) number = Token::Kind::kFloat;
    }
    Add(number, absl::StrReplaceAll(source_.substr(at_, size), {{"_", ""}}));
    Advance(size);
  }

  void ScanText(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      Refuse(
          absl::StrCat("unexpected char '", std::string(1, quote), "': a text that nothing ends"));
    Add(Token::Kind::kText, Unescaped(absl::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    Advance(end + 1 - at_);
  }

  // Resolves escapes as in Python's strings; unknown ones are unchanged.
  std::string Unescaped(absl::string_view text) const {
    std::string meant;
    for (size_t at = 0; at < text.size(); ++at) {
      if (text[at] != '\\') {
        meant += text[at];
        continue;
      }
      const char c = text[++at];
      static constexpr absl::string_view kNames = "ntrabfv\\'\"", kMeant = "\n\t\r\a\b\f\v\\'\"";
      if (const size_t simple = kNames.find(c); simple != absl::string_view::npos) {
        meant += kMeant[simple];
      } else if (c >= '0' && c <= '7') {
        size_t digits = 1;
        while (digits < 3 && at + digits < text.size() && text[at + digits] >= '0' &&
               text[at + digits] <= '7')
          ++digits;
        AppendCodePoint(
            static_cast<char32_t>(std::stoul(std::string(text.substr(at, digits)), nullptr, 8)),
            meant);
        at += digits - 1;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const std::string number(text.substr(at + 1, digits));
        if (number.size() < digits ||
            !std::all_of(number.begin(), number.end(), absl::ascii_isxdigit))
          Refuse(absl::StrCat("truncated \\", std::string(1, c), " escape"));
        const uint64_t code_point = std::stoull(number, nullptr, 16);
        if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000))
          Refuse("an escape of no character");
        AppendCodePoint(static_cast<char32_t>(code_point), meant);
        at += digits;
      } else if (c == 'N') {
        throw SyntaxError(line_, absl::StatusCode::kUnimplemented,
                          "not supported: escapes that name a character (\\N)");
      } else if (c != '\n') {  // an escaped line end is removed
        meant += '\\';
        meant += c;
      }
    }
    return meant;
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_begin_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(absl::string_view source) {
  std::string lines = absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
  if (!lines.empty() && lines.back() == '\n') lines.pop_back();
  return Lexer(std::move(lines)).Run();
}

std::string Describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kData:
      return "text";
    case Token::Kind::kPrintBegin:
      return "'{{'";
    case Token::Kind::kPrintEnd:
      return "'}}'";
    case Token::Kind::kTagBegin:
      return "'{%'";
    case Token::Kind::kTagEnd:
      return "'%}'";
    case Token::Kind::kText:
      return "a text";
    case Token::Kind::kEnd:
      return "the end of the template";
    default:
      return absl::StrCat("'", token.text, "'");
  }
}

}  // namespace moonring::data::jinja
