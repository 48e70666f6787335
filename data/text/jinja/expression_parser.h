// Expressions out of tokens: Jinja2's grammar, the loosest binding first.
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

  // A value with one more thing done to it; `count` counts them.
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
  // Expressions between commas: a tuple, or the one that there is. `ends`:
  // names that end it, as brackets do.
  ExpressionPtr ParseTuple(Names ends, bool with_conditional, bool in_brackets = false);
  ExpressionPtr ParsePostfix(ExpressionPtr value);
  ExpressionPtr ParseFilters(ExpressionPtr value);
  ExpressionPtr ParseSubscript(ExpressionPtr value);
  ExpressionPtr ParseCall(ExpressionPtr callee);
  std::vector<CallArgument> ParseArguments();
  std::string ParseDottedName();
  // `| name(arguments)` as often as it comes; of a block's filters the first
  // has no bar where `bare`.
  ExpressionPtr ParseFilter(ExpressionPtr value, bool bare = false);
  ExpressionPtr ParseTest(ExpressionPtr value);

 private:
  static constexpr int kMostChained =
      1000;  // operators, filters, calls and the like after one another
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_EXPRESSION_PARSER_H_
