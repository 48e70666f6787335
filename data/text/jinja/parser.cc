#include "data/text/jinja/parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/text/jinja/expression_parser.h"
#include "data/text/jinja/lexer.h"

namespace moonring::data::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block Run() { return ParseBlock({}); }

 private:
  // Parses statements up to a tag with one of the names in `ends`, whose name is then the current
  // token; if `ends` is empty, up to the end.
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
          if (ends.size() > 0)
            Refuse(absl::StrCat("Unexpected end of template: '", absl::StrJoin(ends, "' or '"),
                                "' is missing"));
          return block;
      }
    }
  }

  // Parses the rest of a tag and the body up to a tag with a name in `ends`, whose name is not
  // consumed.
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
        {"for", &Parser::ParseFor},        {"if", &Parser::ParseIf},
        {"set", &Parser::ParseSet},        {"macro", &Parser::ParseMacro},
        {"call", &Parser::ParseCallBlock}, {"filter", &Parser::ParseFilterBlock},
        {"with", &Parser::ParseWith},      {"generation", &Parser::ParseGeneration},
        {"break", &Parser::ParseBreak},    {"continue", &Parser::ParseContinue}};
    const Token& tag = Look();
    if (tag.kind != Token::Kind::kName) Refuse("tag name expected");
    for (const absl::string_view name :
         {"block", "extends", "include", "import", "from", "autoescape", "print"}) {
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

  // Parses a name, or comma-separated names; with_attributes: also namespace.name.
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
    static constexpr absl::string_view kConstants[] = {"true",  "True", "false",
                                                       "False", "none", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), Look().text) !=
        std::end(kConstants))
      Refuse(absl::StrCat("can't assign to '", Look().text, "'"));
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
      const bool had_default = macro.parameters.size() > 1 &&
                               macro.parameters[macro.parameters.size() - 2].absent != nullptr;
      if (Skip("=")) {
        parameter.absent = ParseExpression();
      } else if (had_default) {
        Refuse("non-default argument follows default argument");
      }
    }
    Expect(")");
  }

  // Parses the body of a macro or call block. How it may be called depends on which of varargs,
  // kwargs and caller it uses.
  void ParseMacroBody(Statement& macro, absl::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const size_t begin = place();
    macro.body = ParseWholeBody(end);
    loops_ = loops;
    macro.uses_varargs = Named(begin, "varargs");
    macro.uses_kwargs = Named(begin, "kwargs");
    macro.uses_caller = Named(begin, "caller");
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

  void ParseBreak(Statement& statement) {
    ParseLoopControl(statement, Statement::Kind::kBreak, "break");
  }
  void ParseContinue(Statement& statement) {
    ParseLoopControl(statement, Statement::Kind::kContinue, "continue");
  }
  void ParseLoopControl(Statement& statement, Statement::Kind kind, const char* name) {
    if (loops_ == 0) Refuse(absl::StrCat("'", name, "' outside of a loop"));
    statement.kind = kind;
  }

  int loops_ = 0;  // loops around the current position, inside the macro
};

}  // namespace

Block Parse(absl::string_view source) { return Parser(Tokenize(source)).Run(); }

}  // namespace moonring::data::jinja
