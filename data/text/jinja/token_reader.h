// Base class of the parsers: reads the tokens one after another.
#ifndef MOONRING_DATA_TEXT_JINJA_TOKEN_READER_H_
#define MOONRING_DATA_TEXT_JINJA_TOKEN_READER_H_

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "data/text/jinja/lexer.h"

namespace moonring::data::jinja {

class TokenReader {
 public:
  using Names = std::initializer_list<absl::string_view>;

  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& Look(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool Is(absl::string_view operation) const {
    return Look().kind == Token::Kind::kOperator && Look().text == operation;
  }
  bool IsName(absl::string_view name, size_t ahead = 0) const {
    return Look(ahead).kind == Token::Kind::kName && Look(ahead).text == name;
  }
  bool IsAnyName(Names names) const {
    return std::any_of(names.begin(), names.end(),
                       [this](absl::string_view name) { return IsName(name); });
  }
  const Token& Next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool Skip(absl::string_view operation) { return Is(operation) && (Next(), true); }
  bool SkipName(absl::string_view name) { return IsName(name) && (Next(), true); }

  [[noreturn]] void Refuse(const std::string& what) const {
    throw SyntaxError(Look().line, absl::StatusCode::kInvalidArgument, what);
  }
  [[noreturn]] void NotSupported(const std::string& what) const {
    throw SyntaxError(Look().line, absl::StatusCode::kUnimplemented,
                      absl::StrCat("not supported: ", what));
  }
  void Expect(absl::string_view operation) {
    if (!Skip(operation))
      Refuse(absl::StrCat("expected '", operation, "', got ", Describe(Look())));
  }
  void Expect(Token::Kind kind, absl::string_view what) {
    if (Look().kind != kind) Refuse(absl::StrCat("expected ", what, ", got ", Describe(Look())));
    Next();
  }
  std::string ExpectName() {
    if (Look().kind != Token::Kind::kName)
      Refuse(absl::StrCat("expected a name, got ", Describe(Look())));
    return Next().text;
  }

  // Increases the nesting depth by one during this object's lifetime.
  class Deeper {
   public:
    explicit Deeper(TokenReader& reader) : reader_(reader) {
      if (++reader_.depth_ > kMostDepth)
        reader_.NotSupported(
            absl::StrCat("more than ", kMostDepth, " expressions or blocks within one another"));
    }
    ~Deeper() { --reader_.depth_; }

   private:
    TokenReader& reader_;
  };

  // Whether one of the tokens from `begin` to the current one is this name.
  bool Named(size_t begin, absl::string_view name) const {
    return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                       tokens_.begin() + static_cast<std::ptrdiff_t>(at_), [&](const Token& token) {
                         return token.kind == Token::Kind::kName && token.text == name;
                       });
  }
  size_t place() const { return at_; }

 private:
  static constexpr int kMostDepth = 500;  // of nested expressions and blocks

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_TOKEN_READER_H_
