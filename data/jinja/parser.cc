#include "data/jinja/parser.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/jinja/lexer.h"

namespace moonring::data::jinja {
namespace {

constexpr int kMostDepth = 500;  // of expressions and blocks within one another
constexpr int kMostChained = 1000;  // operators, filters, calls and the like after one another

using Kind = Expression::Kind;
using Names = std::initializer_list<absl::string_view>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Block Run() { return ParseBlock({}); }

 private:
  // --- tokens

  const Token& Look(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool Is(absl::string_view operation) const { return Look().kind == Token::Kind::kOperator && Look().text == operation; }
  bool IsName(absl::string_view name, size_t ahead = 0) const { return Look(ahead).kind == Token::Kind::kName && Look(ahead).text == name; }
  bool IsAnyName(Names names) const {
    return std::any_of(names.begin(), names.end(), [this](absl::string_view name) { return IsName(name); });
  }
  const Token& Next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool Skip(absl::string_view operation) { return Is(operation) && (Next(), true); }
  bool SkipName(absl::string_view name) { return IsName(name) && (Next(), true); }

  [[noreturn]] void Refuse(const std::string& what) const { throw SyntaxError(Look().line, absl::StatusCode::kInvalidArgument, what); }
  [[noreturn]] void NotSupported(const std::string& what) const {
    throw SyntaxError(Look().line, absl::StatusCode::kUnimplemented, absl::StrCat("not supported: ", what));
  }
  void Expect(absl::string_view operation) {
    if (!Skip(operation)) Refuse(absl::StrCat("expected '", operation, "', got ", Describe(Look())));
  }
  void Expect(Token::Kind kind, absl::string_view what) {
    if (Look().kind != kind) Refuse(absl::StrCat("expected ", what, ", got ", Describe(Look())));
    Next();
  }
  std::string ExpectName() {
    if (Look().kind != Token::Kind::kName) Refuse(absl::StrCat("expected a name, got ", Describe(Look())));
    return Next().text;
  }

  // One thing within another for as long as it lives.
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMostDepth) parser_.NotSupported(absl::StrCat("more than ", kMostDepth, " expressions or blocks within one another"));
    }
    ~Deeper() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  // A value with one more thing done to it; `count` counts them.
  void Chain(int& count) const {
    if (++count > kMostChained) NotSupported(absl::StrCat("more than ", kMostChained, " operators, filters or calls after one another"));
  }

  ExpressionPtr Make(Kind kind, int line) const {
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->line = line;
    return made;
  }
  template <typename... Parts>
  ExpressionPtr MakeOf(Kind kind, int line, Parts... parts) const {
    ExpressionPtr made = Make(kind, line);
    (made->parts.push_back(std::move(parts)), ...);
    return made;
  }

  // --- expressions, the loosest binding first

  ExpressionPtr ParseExpression(bool with_conditional = true) {
    const Deeper deeper(*this);
    if (!with_conditional) return ParseOr();
    const int line = Look().line;
    ExpressionPtr value = ParseOr();
    for (int count = 0; SkipName("if"); Chain(count)) {
      ExpressionPtr condition = ParseOr(), otherwise;
      if (SkipName("else")) otherwise = ParseExpression();
      value = MakeOf(Kind::kConditional, line, std::move(condition), std::move(value), std::move(otherwise));
    }
    return value;
  }

  ExpressionPtr ParseOr() {
    ExpressionPtr left = ParseAnd();
    int count = 0;
    for (int line = Look().line; SkipName("or"); line = Look().line, Chain(count)) left = MakeOf(Kind::kOr, line, std::move(left), ParseAnd());
    return left;
  }

  ExpressionPtr ParseAnd() {
    ExpressionPtr left = ParseNot();
    int count = 0;
    for (int line = Look().line; SkipName("and"); line = Look().line, Chain(count)) left = MakeOf(Kind::kAnd, line, std::move(left), ParseNot());
    return left;
  }

  ExpressionPtr ParseNot() {
    const Deeper deeper(*this);
    const int line = Look().line;
    return SkipName("not") ? MakeOf(Kind::kNot, line, ParseNot()) : ParseCompare();
  }

  ExpressionPtr ParseCompare() {
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

  ExpressionPtr ParseArithmetic(Names operations, ExpressionPtr (Parser::*part)()) {
    ExpressionPtr left = (this->*part)();
    for (int count = 0; std::any_of(operations.begin(), operations.end(), [this](absl::string_view each) { return Is(each); }); Chain(count)) {
      const Token& operation = Next();
      left = MakeOf(Kind::kArithmetic, operation.line, std::move(left), (this->*part)());
      left->name = operation.text;
    }
    return left;
  }

  ExpressionPtr ParseSum() { return ParseArithmetic({"+", "-"}, &Parser::ParseConcatenation); }

  ExpressionPtr ParseConcatenation() {
    const int line = Look().line;
    ExpressionPtr first = ParseProduct();
    if (!Is("~")) return first;
    ExpressionPtr whole = MakeOf(Kind::kConcatenate, line, std::move(first));
    while (Skip("~")) whole->parts.push_back(ParseProduct());
    return whole;
  }

  ExpressionPtr ParseProduct() { return ParseArithmetic({"*", "/", "//", "%"}, &Parser::ParsePower); }
  ExpressionPtr ParsePower() { return ParseArithmetic({"**"}, &Parser::ParseFilteredUnary); }
  ExpressionPtr ParseFilteredUnary() { return ParseUnary(true); }

  ExpressionPtr ParseUnary(bool with_filters) {
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

  ExpressionPtr ParsePrimary() {
    const Token& token = Look();
    ExpressionPtr constant = Make(Kind::kConstant, token.line);
    switch (token.kind) {
      case Token::Kind::kName:
        Next();
        if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
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

  Value IntegerOf(const std::string& text) const {
    const char kind = text.size() > 1 ? text[1] : ' ';
    const int base = kind == 'x' || kind == 'X' ? 16 : kind == 'o' || kind == 'O' ? 8 : kind == 'b' || kind == 'B' ? 2 : 10;
    try {
      return Value::Int(std::stoll(text.substr(base == 10 ? 0 : 2), nullptr, base));
    } catch (const std::out_of_range&) {
      NotSupported("integers beyond 64 bits");
    }
  }

  ExpressionPtr ParseList() {
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

  ExpressionPtr ParseDict() {
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

  // Expressions between commas: a tuple, or the one that there is. `ends`: names that end it, as brackets do.
  ExpressionPtr ParseTuple(Names ends, bool with_conditional, bool in_brackets = false) {
    ExpressionPtr tuple = Make(Kind::kTuple, Look().line);
    bool comma = false;
    while (true) {
      if (Look().kind == Token::Kind::kPrintEnd || Look().kind == Token::Kind::kTagEnd || Is(")") || IsAnyName(ends)) break;
      tuple->parts.push_back(ParseExpression(with_conditional));
      if (!Skip(",")) break;
      comma = true;
    }
    if (!comma && tuple->parts.size() == 1) return std::move(tuple->parts[0]);
    if (!comma && !in_brackets) Refuse(absl::StrCat("Expected an expression, got ", Describe(Look())));
    return tuple;
  }

  ExpressionPtr ParsePostfix(ExpressionPtr value) {
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

  ExpressionPtr ParseFilters(ExpressionPtr value) {
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

  ExpressionPtr ParseSubscript(ExpressionPtr value) {
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
    return MakeOf(Kind::kSlice, line, std::move(value), std::move(first), std::move(end), std::move(step));
  }

  ExpressionPtr ParseCall(ExpressionPtr callee) {
    ExpressionPtr call = MakeOf(Kind::kCall, Look().line, std::move(callee));
    call->arguments = ParseArguments();
    return call;
  }

  std::vector<CallArgument> ParseArguments() {
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
      } else if (Look().kind == Token::Kind::kName && Look(1).kind == Token::Kind::kOperator && Look(1).text == "=") {
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

  std::string ParseDottedName() {
    std::string name = ExpectName();
    while (Skip(".")) absl::StrAppend(&name, ".", ExpectName());
    return name;
  }

  // `| name(arguments)` as often as it comes; of a block's filters the first has no bar where `bare`.
  ExpressionPtr ParseFilter(ExpressionPtr value, bool bare = false) {
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

  ExpressionPtr ParseTest(ExpressionPtr value) {
    const int line = Look().line;
    Next();  // is
    const bool negated = SkipName("not");
    ExpressionPtr test = MakeOf(Kind::kTest, line, std::move(value));
    test->name = ParseDottedName();
    const Token::Kind kind = Look().kind;
    const bool begins_value = kind == Token::Kind::kName || kind == Token::Kind::kText || kind == Token::Kind::kInteger || kind == Token::Kind::kFloat || Is("[") || Is("{");
    if (Is("(")) {
      test->arguments = ParseArguments();
    } else if (begins_value && !IsAnyName({"else", "or", "and"})) {
      if (IsName("is")) Refuse("You cannot chain multiple tests with is");
      test->arguments.push_back({CallArgument::Kind::kPositional, "", ParsePostfix(ParsePrimary())});
    }
    return negated ? MakeOf(Kind::kNot, line, std::move(test)) : std::move(test);
  }

  // --- statements

  // Statements up to a tag with one of the names, whose name is then the current token; without names up to the end.
  Block ParseBlock(Names ends) {
    const Deeper deeper(*this);
    Block block;
    while (true) {
      const Token& token = Next();
      switch (token.kind) {
        case Token::Kind::kData:
          block.push_back(MakeStatement(Statement::Kind::kText, token.line));
          block.back()->text = token.text;
          break;
        case Token::Kind::kPrintBegin:
          block.push_back(MakeStatement(Statement::Kind::kPrint, token.line));
          block.back()->expressions.push_back(ParseTuple({}, true));
          Expect(Token::Kind::kPrintEnd, "end of print statement");
          break;
        case Token::Kind::kTagBegin:
          if (IsAnyName(ends)) return block;
          block.push_back(ParseStatement());
          Expect(Token::Kind::kTagEnd, "end of statement block");
          break;
        default:
          if (ends.size() > 0) Refuse(absl::StrCat("Unexpected end of template: '", absl::StrJoin(ends, "' or '"), "' is missing"));
          return block;
      }
    }
  }

  // What stands between a tag, whose end comes first, and another, whose name is left to read.
  Block ParseBody(Names ends) {
    Skip(":");
    Expect(Token::Kind::kTagEnd, "end of statement block");
    return ParseBlock(ends);
  }
  Block ParseWholeBody(absl::string_view end) {
    Block body = ParseBody({end});
    Next();
    return body;
  }

  std::unique_ptr<Statement> MakeStatement(Statement::Kind kind, int line) const {
    auto made = std::make_unique<Statement>();
    made->kind = kind;
    made->line = line;
    return made;
  }

  std::unique_ptr<Statement> ParseStatement() {
    static const std::pair<absl::string_view, void (Parser::*)(Statement&)> kTags[] = {
        {"for", &Parser::ParseFor},        {"if", &Parser::ParseIf},          {"set", &Parser::ParseSet},
        {"macro", &Parser::ParseMacro},    {"call", &Parser::ParseCallBlock}, {"filter", &Parser::ParseFilterBlock},
        {"with", &Parser::ParseWith},      {"generation", &Parser::ParseGeneration},
        {"break", &Parser::ParseBreak},    {"continue", &Parser::ParseContinue}};
    const Token& tag = Look();
    if (tag.kind != Token::Kind::kName) Refuse("tag name expected");
    for (const absl::string_view name : {"block", "extends", "include", "import", "from", "autoescape", "print"}) {
      if (tag.text == name) NotSupported(absl::StrCat("the tag '", name, "'"));
    }
    for (const auto& [name, parse] : kTags) {
      if (tag.text != name) continue;
      std::unique_ptr<Statement> statement = MakeStatement(Statement::Kind::kIf, tag.line);
      Next();
      (this->*parse)(*statement);
      return statement;
    }
    Refuse(absl::StrCat("Encountered unknown tag '", tag.text, "'."));
  }

  void ParseFor(Statement& loop) {
    loop.kind = Statement::Kind::kFor;
    loop.targets.push_back(ParseTarget(false));
    if (!SkipName("in")) Refuse(absl::StrCat("expected 'in', got ", Describe(Look())));
    loop.expressions.push_back(ParseTuple({"recursive"}, false));
    loop.expressions.push_back(SkipName("if") ? ParseExpression() : nullptr);
    if (IsName("recursive")) NotSupported("recursive loops");
    ++loops_;
    loop.body = ParseBody({"endfor", "else"});
    --loops_;
    if (Next().text == "else") loop.otherwise = ParseWholeBody("endfor");
  }

  void ParseIf(Statement& choice) {
    choice.kind = Statement::Kind::kIf;
    choice.expressions.push_back(ParseTuple({}, false));
    choice.body = ParseBody({"elif", "else", "endif"});
    const Token& token = Next();
    if (token.text == "elif") {
      const Deeper deeper(*this);
      choice.otherwise.push_back(MakeStatement(Statement::Kind::kIf, token.line));
      ParseIf(*choice.otherwise.back());
    } else if (token.text == "else") {
      choice.otherwise = ParseWholeBody("endif");
    }
  }

  // A name, or names between commas; with_attributes: also namespace.name.
  Target ParseTarget(bool with_attributes) {
    const Deeper deeper(*this);
    Target whole;
    while (true) {
      Target& part = whole.parts.emplace_back();
      if (Skip("(")) {
        part = ParseTarget(with_attributes);
        Expect(")");
      } else {
        part.name = ParseStoredName();
        if (with_attributes && Skip(".")) part.attribute = ExpectName();
      }
      if (!Skip(",")) break;
      whole.is_tuple = true;
      if (Look().kind != Token::Kind::kName && !Is("(")) break;
      if (IsName("in")) break;
    }
    if (whole.is_tuple) return whole;
    Target only = std::move(whole.parts[0]);
    return only;
  }

  std::string ParseStoredName() {
    static constexpr absl::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), Look().text) != std::end(kConstants)) Refuse(absl::StrCat("can't assign to '", Look().text, "'"));
    return ExpectName();
  }

  void ParseSet(Statement& set) {
    set.kind = Statement::Kind::kSet;
    set.targets.push_back(ParseTarget(true));
    if (Skip("=")) {
      set.expressions.push_back(ParseTuple({}, true));
      return;
    }
    set.kind = Statement::Kind::kSetBlock;
    set.expressions.push_back(ParseFilter(nullptr));
    set.body = ParseWholeBody("endset");
  }

  void ParseSignature(Statement& macro) {
    Expect("(");
    while (!Is(")")) {
      if (!macro.parameters.empty()) Expect(",");
      Parameter& parameter = macro.parameters.emplace_back();
      parameter.name = ParseStoredName();
      const bool had_default = macro.parameters.size() > 1 && macro.parameters[macro.parameters.size() - 2].absent != nullptr;
      if (Skip("=")) {
        parameter.absent = ParseExpression();
      } else if (had_default) {
        Refuse("non-default argument follows default argument");
      }
    }
    Expect(")");
  }

  // The body of a macro, or of what a call gives as one: what of varargs, kwargs and caller it names changes how it may be called.
  void ParseMacroBody(Statement& macro, absl::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const size_t begin = at_;
    macro.body = ParseWholeBody(end);
    loops_ = loops;
    const auto names = [&](absl::string_view name) {
      return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin), tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                         [&](const Token& token) { return token.kind == Token::Kind::kName && token.text == name; });
    };
    macro.uses_varargs = names("varargs");
    macro.uses_kwargs = names("kwargs");
    macro.uses_caller = names("caller");
  }

  void ParseMacro(Statement& macro) {
    macro.kind = Statement::Kind::kMacro;
    macro.text = ParseStoredName();
    ParseSignature(macro);
    ParseMacroBody(macro, "endmacro");
  }

  void ParseCallBlock(Statement& call) {
    call.kind = Statement::Kind::kCall;
    if (Is("(")) ParseSignature(call);
    call.expressions.push_back(ParseExpression());
    if (call.expressions[0]->kind != Kind::kCall) Refuse("expected call");
    ParseMacroBody(call, "endcall");
  }

  void ParseFilterBlock(Statement& filter) {
    filter.kind = Statement::Kind::kFilter;
    filter.expressions.push_back(ParseFilter(nullptr, true));
    filter.body = ParseWholeBody("endfilter");
  }

  void ParseWith(Statement& with) {
    with.kind = Statement::Kind::kWith;
    while (Look().kind != Token::Kind::kTagEnd) {
      if (!with.targets.empty()) Expect(",");
      Target target;
      target.name = ParseStoredName();
      with.targets.push_back(std::move(target));
      Expect("=");
      with.expressions.push_back(ParseExpression());
    }
    with.body = ParseWholeBody("endwith");
  }

  void ParseGeneration(Statement& generation) {
    generation.kind = Statement::Kind::kGeneration;
    ParseMacroBody(generation, "endgeneration");
  }

  void ParseBreak(Statement& statement) { ParseLoopControl(statement, Statement::Kind::kBreak, "break"); }
  void ParseContinue(Statement& statement) { ParseLoopControl(statement, Statement::Kind::kContinue, "continue"); }
  void ParseLoopControl(Statement& statement, Statement::Kind kind, const char* name) {
    if (loops_ == 0) Refuse(absl::StrCat("'", name, "' outside of a loop"));
    statement.kind = kind;
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

Block Parse(absl::string_view source) { return Parser(Tokenize(source)).Run(); }

}  // namespace moonring::data::jinja
