// A template's source as tokens, with white space as Transformers has it: trim_blocks (a line's end
// right after a block or comment goes), lstrip_blocks (so does what indents one), `-` and `+`
// beside the brackets, and one line's end at the very end of the source.
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
  std::string text;  // of kText: what it means, escapes done
  int line;
};

// What is wrong with a template, and where.
class SyntaxError : public Error {
 public:
  SyntaxError(int line, absl::StatusCode code, std::string message)
      : Error(code, std::move(message)), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

// The last token is kEnd. Throws SyntaxError. `source` is well-formed UTF-8.
std::vector<Token> Tokenize(absl::string_view source);

// How a token is called in messages.
std::string Describe(const Token& token);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_LEXER_H_
