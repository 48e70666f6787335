// The syntax tree of a parsed template.
#ifndef MOONRING_DATA_TEXT_JINJA_TREE_H_
#define MOONRING_DATA_TEXT_JINJA_TREE_H_

#include <memory>
#include <string>
#include <vector>

#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

// One argument of a call: a value, name=value, *list or **dictionary.
struct CallArgument {
  enum class Kind { kPositional, kNamed, kList, kDict } kind;
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // parts
    kTuple,        // parts
    kDict,         // parts: key, value, key, value, ...
    kAttribute,    // parts[0].name
    kItem,         // parts[0][parts[1]]
    kSlice,        // parts[0][parts[1]:parts[2]:parts[3]]; omitted bounds are null
    kCall,         // parts[0](arguments)
    kFilter,       // parts[0] | name(arguments); parts[0] is null for a filter block
    kTest,         // parts[0] is name(arguments)
    kNot,          // parts[0]
    kNegative,     // parts[0]
    kPositive,     // parts[0]
    kArithmetic,   // parts[0] name parts[1]
    kConcatenate,  // parts, joined by ~
    kCompare,      // parts[0] operators[0] parts[1] operators[1] parts[2] ...
    kAnd,          // parts[0], parts[1]
    kOr,           // parts[0], parts[1]
    kConditional,  // parts[1] if parts[0] else parts[2], which may be null
  };

  Kind kind;
  int line;
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> parts;
  std::vector<std::string> operators;
  std::vector<CallArgument> arguments;
};

// The target of an assignment: a name, a namespace's attribute, or a tuple of targets.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;  // of a tuple
  bool is_tuple = false;
};

struct Parameter {
  std::string name;
  ExpressionPtr absent;  // default value; null if there is none
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  enum class Kind {
    kText,   // text
    kPrint,  // expressions[0]
    kIf,     // body if expressions[0] is true, else otherwise
    // for targets[0] in expressions[0], if expressions[1] (may be null): body; otherwise: the else
    // block
    kFor,
    kSet,         // targets[0] = expressions[0]
    kSetBlock,    // targets[0] = body, through the filters expressions[0] (may be null)
    kWith,        // targets[i] = expressions[i] inside body
    kMacro,       // text(parameters): body
    kCall,        // expressions[0], a call, with body as its caller(parameters)
    kFilter,      // body through the filters expressions[0]
    kGeneration,  // body, in its own scope
    kBreak,
    kContinue,
  };

  Kind kind;
  int line;
  std::string text;
  std::vector<Target> targets;
  std::vector<ExpressionPtr> expressions;
  std::vector<Parameter> parameters;
  Block body, otherwise;
  bool uses_varargs = false, uses_kwargs = false,
       uses_caller = false;  // kMacro, kCall: names used in the body
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_TREE_H_
