// Parses expressions by Jinja2's grammar, from the lowest precedence to the highest.
#ifndef MOONRING_DATA_TEXT_JINJA_EXPRESSION_PARSER_H_
#define MOONRING_DATA_TEXT_JINJA_EXPRESSION_PARSER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/jinja/token_reader.h"
#include "data/text/jinja/tree.h"

namespace moonring::data::jinja {

class ExpressionParser : public TokenReader {
 protected:
  using Kind = Expression::Kind;

  using TokenReader::TokenReader;

  // Counts one more chained operation on a value in `count`, and rejects too many.
  void Chain(int& count) const;
  ExpressionPtr Make(Kind kind, int line) const;
  template <typename... Parts>
  ExpressionPtr MakeOf(Kind kind, int line, Parts... parts) const {
    ExpressionPtr made = Make(kind, line);
    (made->parts.push_back(std::move(parts)), ...);
    return made;
  }
  ExpressionPtr ParseExpression(bool with_conditional = true);
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseArithmetic(Names operations, ExpressionPtr (ExpressionParser::*part)());
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseFilteredUnary();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  Value IntegerOf(const std::string& text) const;
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  // Parses comma-separated expressions: a tuple, or a single expression. `ends`: names that end it,
  // like closing brackets.
  ExpressionPtr ParseTuple(Names ends, bool with_conditional, bool in_brackets = false);
  ExpressionPtr ParsePostfix(ExpressionPtr value);
  ExpressionPtr ParseFilters(ExpressionPtr value);
  ExpressionPtr ParseSubscript(ExpressionPtr value);
  ExpressionPtr ParseCall(ExpressionPtr callee);
  std::vector<CallArgument> ParseArguments();
  std::string ParseDottedName();
  // Parses `| name(arguments)` repeatedly; with `bare`, the first filter has no bar (as in a filter
  // block).
  ExpressionPtr ParseFilter(ExpressionPtr value, bool bare = false);
  ExpressionPtr ParseTest(ExpressionPtr value);

 private:
  static constexpr int kMostChained = 1000;  // operators, filters, calls etc. in a row
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_EXPRESSION_PARSER_H_
