#include "data/text/jinja/expression_parser.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace moonring::data::jinja {

void ExpressionParser::Chain(int& count) const {
  if (++count > kMostChained)
    NotSupported(
        absl::StrCat("more than ", kMostChained, " operators, filters or calls after one another"));
}

ExpressionPtr ExpressionParser::Make(Kind kind, int line) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  return made;
}

ExpressionPtr ExpressionParser::ParseExpression(bool with_conditional) {
  const Deeper deeper(*this);
  if (!with_conditional) return ParseOr();
  const int line = Look().line;
  ExpressionPtr value = ParseOr();
  for (int count = 0; SkipName("if"); Chain(count)) {
    ExpressionPtr condition = ParseOr(), otherwise;
    if (SkipName("else")) otherwise = ParseExpression();
    value = MakeOf(Kind::kConditional, line, std::move(condition), std::move(value),
                   std::move(otherwise));
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr left = ParseAnd();
  int count = 0;
  for (int line = Look().line; SkipName("or"); line = Look().line, Chain(count))
    left = MakeOf(Kind::kOr, line, std::move(left), ParseAnd());
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  int count = 0;
  for (int line = Look().line; SkipName("and"); line = Look().line, Chain(count))
    left = MakeOf(Kind::kAnd, line, std::move(left), ParseNot());
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  const Deeper deeper(*this);
  const int line = Look().line;
  return SkipName("not") ? MakeOf(Kind::kNot, line, ParseNot()) : ParseCompare();
}

ExpressionPtr ExpressionParser::ParseCompare() {
  const int line = Look().line;
  ExpressionPtr first = ParseSum();
  ExpressionPtr compare;
  while (true) {
    std::string operation;
    if (IsName("not") && IsName("in", 1)) {
      Next();
      operation = "not in";
    } else if (IsName("in") || Is("==") || Is("!=") || Is("<") || Is("<=") || Is(">") || Is(">=")) {
      operation = Look().text;
    } else {
      return compare != nullptr ? std::move(compare) : std::move(first);
    }
    Next();
    if (compare == nullptr) compare = MakeOf(Kind::kCompare, line, std::move(first));
    compare->operators.push_back(std::move(operation));
    compare->parts.push_back(ParseSum());
  }
}

ExpressionPtr ExpressionParser::ParseArithmetic(Names operations,
                                                ExpressionPtr (ExpressionParser::*part)()) {
  ExpressionPtr left = (this->*part)();
  for (int count = 0; std::any_of(operations.begin(), operations.end(),
                                  [this](absl::string_view each) { return Is(each); });
       Chain(count)) {
    const Token& operation = Next();
    left = MakeOf(Kind::kArithmetic, operation.line, std::move(left), (this->*part)());
    left->name = operation.text;
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseSum() {
  return ParseArithmetic({"+", "-"}, &ExpressionParser::ParseConcatenation);
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  const int line = Look().line;
  ExpressionPtr first = ParseProduct();
  if (!Is("~")) return first;
  ExpressionPtr whole = MakeOf(Kind::kConcatenate, line, std::move(first));
  while (Skip("~")) whole->parts.push_back(ParseProduct());
  return whole;
}

ExpressionPtr ExpressionParser::ParseProduct() {
  return ParseArithmetic({"*", "/", "//", "%"}, &ExpressionParser::ParsePower);
}

ExpressionPtr ExpressionParser::ParsePower() {
  return ParseArithmetic({"**"}, &ExpressionParser::ParseFilteredUnary);
}

ExpressionPtr ExpressionParser::ParseFilteredUnary() { return ParseUnary(true); }

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  const Deeper deeper(*this);
  const int line = Look().line;
  ExpressionPtr value;
  if (Skip("-")) {
    value = MakeOf(Kind::kNegative, line, ParseUnary(false));
  } else if (Skip("+")) {
    value = MakeOf(Kind::kPositive, line, ParseUnary(false));
  } else {
    value = ParsePrimary();
  }
  value = ParsePostfix(std::move(value));
  return with_filters ? ParseFilters(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const Token& token = Look();
  ExpressionPtr constant = Make(Kind::kConstant, token.line);
  switch (token.kind) {
    case Token::Kind::kName:
      Next();
      if (token.text == "true" || token.text == "True" || token.text == "false" ||
          token.text == "False") {
        constant->constant = Value::Bool(token.text[0] == 't' || token.text[0] == 'T');
      } else if (token.text != "none" && token.text != "None") {
        constant->kind = Kind::kName;
        constant->name = token.text;
      }
      return constant;
    case Token::Kind::kText: {
      std::string text;
      while (Look().kind == Token::Kind::kText) text += Next().text;
      constant->constant = Value::Text(std::move(text));
      return constant;
    }
    case Token::Kind::kInteger:
      constant->constant = IntegerOf(token.text);
      Next();
      return constant;
    case Token::Kind::kFloat:
      constant->constant = Value::Float(std::strtod(token.text.c_str(), nullptr));
      Next();
      return constant;
    default:
      break;
  }
  if (Skip("(")) {
    ExpressionPtr inner = ParseTuple({}, true, true);
    Expect(")");
    return inner;
  }
  if (Is("[")) return ParseList();
  if (Is("{")) return ParseDict();
  Refuse(absl::StrCat("unexpected ", Describe(token)));
}

Value ExpressionParser::IntegerOf(const std::string& text) const {
  const char kind = text.size() > 1 ? text[1] : ' ';
  const int base = kind == 'x' || kind == 'X'   ? 16
                   : kind == 'o' || kind == 'O' ? 8
                   : kind == 'b' || kind == 'B' ? 2
                                                : 10;
  try {
    return Value::Int(std::stoll(text.substr(base == 10 ? 0 : 2), nullptr, base));
  } catch (const std::out_of_range&) {
    NotSupported("integers beyond 64 bits");
  }
}

ExpressionPtr ExpressionParser::ParseList() {
  ExpressionPtr list = Make(Kind::kList, Look().line);
  Expect("[");
  while (!Is("]")) {
    if (!list->parts.empty()) Expect(",");
    if (Is("]")) break;
    list->parts.push_back(ParseExpression());
  }
  Expect("]");
  return list;
}

ExpressionPtr ExpressionParser::ParseDict() {
  ExpressionPtr dict = Make(Kind::kDict, Look().line);
  Expect("{");
  while (!Is("}")) {
    if (!dict->parts.empty()) Expect(",");
    if (Is("}")) break;
    dict->parts.push_back(ParseExpression());
    Expect(":");
    dict->parts.push_back(ParseExpression());
  }
  Expect("}");
  return dict;
}

ExpressionPtr ExpressionParser::ParseTuple(Names ends, bool with_conditional, bool in_brackets) {
  ExpressionPtr tuple = Make(Kind::kTuple, Look().line);
  bool comma = false;
  while (true) {
    if (Look().kind == Token::Kind::kPrintEnd || Look().kind == Token::Kind::kTagEnd || Is(")") ||
        IsAnyName(ends))
      break;
    tuple->parts.push_back(ParseExpression(with_conditional));
    if (!Skip(",")) break;
    comma = true;
  }
  if (!comma && tuple->parts.size() == 1) return std::move(tuple->parts[0]);
  if (!comma && !in_brackets)
    Refuse(absl::StrCat("Expected an expression, got ", Describe(Look())));
  return tuple;
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr value) {
  for (int count = 0;; Chain(count)) {
    if (Is(".") || Is("[")) {
      value = ParseSubscript(std::move(value));
    } else if (Is("(")) {
      value = ParseCall(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr value) {
  for (int count = 0;; Chain(count)) {
    if (Is("|")) {
      value = ParseFilter(std::move(value));
    } else if (IsName("is")) {
      value = ParseTest(std::move(value));
    } else if (Is("(")) {
      value = ParseCall(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr value) {
  const int line = Look().line;
  if (Skip(".")) {
    const Token& name = Next();
    if (name.kind == Token::Kind::kName) {
      ExpressionPtr attribute = MakeOf(Kind::kAttribute, line, std::move(value));
      attribute->name = name.text;
      return attribute;
    }
    if (name.kind != Token::Kind::kInteger) Refuse("expected name or number");
    ExpressionPtr place = Make(Kind::kConstant, line);
    place->constant = IntegerOf(name.text);
    return MakeOf(Kind::kItem, line, std::move(value), std::move(place));
  }
  Expect("[");
  const auto part = [this] { return Is(":") || Is("]") || Is(",") ? nullptr : ParseExpression(); };
  ExpressionPtr first = part();
  if (!Is(":")) {
    if (first == nullptr) Refuse(absl::StrCat("unexpected ", Describe(Look())));
    if (Is(",")) {
      ExpressionPtr tuple = MakeOf(Kind::kTuple, line, std::move(first));
      while (Skip(",")) tuple->parts.push_back(ParseExpression());
      first = std::move(tuple);
    }
    Expect("]");
    return MakeOf(Kind::kItem, line, std::move(value), std::move(first));
  }
  Expect(":");
  ExpressionPtr end = part(), step;
  if (Skip(":")) step = part();
  if (Is(",")) NotSupported("slices in several dimensions");
  Expect("]");
  return MakeOf(Kind::kSlice, line, std::move(value), std::move(first), std::move(end),
                std::move(step));
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr callee) {
  ExpressionPtr call = MakeOf(Kind::kCall, Look().line, std::move(callee));
  call->arguments = ParseArguments();
  return call;
}

std::vector<CallArgument> ExpressionParser::ParseArguments() {
  std::vector<CallArgument> arguments;
  Expect("(");
  bool named = false, comma = false;
  while (!Is(")")) {
    if (comma) Expect(",");
    if (comma && Is(")")) break;
    comma = true;
    CallArgument argument{CallArgument::Kind::kPositional, "", nullptr};
    if (Skip("*")) {
      argument.kind = CallArgument::Kind::kList;
    } else if (Skip("**")) {
      argument.kind = CallArgument::Kind::kDict;
      named = true;
    } else if (Look().kind == Token::Kind::kName && Look(1).kind == Token::Kind::kOperator &&
               Look(1).text == "=") {
      argument.kind = CallArgument::Kind::kNamed;
      argument.name = Next().text;
      Next();
      named = true;
    } else if (named) {
      Refuse("invalid syntax for function call expression");
    }
    argument.value = ParseExpression();
    arguments.push_back(std::move(argument));
  }
  Expect(")");
  return arguments;
}

std::string ExpressionParser::ParseDottedName() {
  std::string name = ExpectName();
  while (Skip(".")) absl::StrAppend(&name, ".", ExpectName());
  return name;
}

ExpressionPtr ExpressionParser::ParseFilter(ExpressionPtr value, bool bare) {
  for (int count = 0; bare || Is("|"); Chain(count)) {
    if (!bare) Next();
    bare = false;
    const int line = Look().line;
    value = MakeOf(Kind::kFilter, line, std::move(value));
    value->name = ParseDottedName();
    if (Is("(")) value->arguments = ParseArguments();
  }
  return value;
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr value) {
  const int line = Look().line;
  Next();  // the name `is`
  const bool negated = SkipName("not");
  ExpressionPtr test = MakeOf(Kind::kTest, line, std::move(value));
  test->name = ParseDottedName();
  const Token::Kind kind = Look().kind;
  const bool begins_value = kind == Token::Kind::kName || kind == Token::Kind::kText ||
                            kind == Token::Kind::kInteger || kind == Token::Kind::kFloat ||
                            Is("[") || Is("{");
  if (Is("(")) {
    test->arguments = ParseArguments();
  } else if (begins_value && !IsAnyName({"else", "or", "and"})) {
    if (IsName("is")) Refuse("You cannot chain multiple tests with is");
    test->arguments.push_back({CallArgument::Kind::kPositional, "", ParsePostfix(ParsePrimary())});
  }
  return negated ? MakeOf(Kind::kNot, line, std::move(test)) : std::move(test);
}

}  // namespace moonring::data::jinja
