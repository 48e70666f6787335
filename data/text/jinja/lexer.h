// Tokenizes a template's source. White space is treated as in Transformers: trim_blocks (removes a
// line end directly after a block or comment), lstrip_blocks (removes the indentation before one),
// `-` and `+` next to brackets; one line end at the end of the source is removed.
#ifndef MOONRING_DATA_TEXT_JINJA_LEXER_H_
#define MOONRING_DATA_TEXT_JINJA_LEXER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/jinja/error.h"

namespace moonring::data::jinja {

struct Token {
  enum class Kind {
    kData,
    kPrintBegin,
    kPrintEnd,
    kTagBegin,
    kTagEnd,
    kName,
    kText,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind;
  std::string text;  // of kText: the string with escapes resolved
  int line;
};

// An error in the template's syntax, with its line.
class SyntaxError : public Error {
 public:
  SyntaxError(int line, absl::StatusCode code, std::string message)
      : Error(code, std::move(message)), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

// The last token is kEnd. Throws SyntaxError. `source` must be well-formed UTF-8.
std::vector<Token> Tokenize(absl::string_view source);

// The description of a token in messages.
std::string Describe(const Token& token);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_LEXER_H_
