// Renders a parsed template: evaluates its expressions and executes its statements. Names are
// looked up in the current scope, the enclosing scopes, the context and the global functions. A
// loop's body, a macro, a `with`, a filter block and a capturing block have scopes of their own:
// variables set there are lost at their end. An `if` has no scope of its own.
#ifndef MOONRING_DATA_TEXT_JINJA_INTERPRETER_H_
#define MOONRING_DATA_TEXT_JINJA_INTERPRETER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/jinja/tree.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

class Interpreter {
 public:
  struct Scope {
    std::shared_ptr<Scope> around;
    std::vector<std::pair<std::string, Value>> values;
  };
  using ScopePtr = std::shared_ptr<Scope>;

  // `context` is a dictionary. `machine` and `context` must outlive the interpreter.
  Interpreter(Machine& machine, const Value& context) : machine_(machine), context_(context) {}

  // Throws Error; machine.line is then the line of the error.
  std::string Render(const Block& block);

  // Renders a macro's body with its arguments. `around`: the scope of the definition; `name`: for
  // messages.
  Value CallMacro(const Statement& macro, const std::string& name, const ScopePtr& around,
                  const Arguments& arguments);

 private:
  enum class Flow { kOn, kBreak, kContinue };

  Flow Execute(const Block& block, const ScopePtr& scope, std::string& out);
  Flow ExecuteOne(const Statement& statement, const ScopePtr& scope, std::string& out);
  Flow ExecuteFor(const Statement& loop, const ScopePtr& scope, std::string& out);
  void ExecuteWith(const Statement& with, const ScopePtr& scope, std::string& out);
  void ExecuteCall(const Statement& call, const ScopePtr& scope, std::string& out);
  std::string Inner(const Block& block, const ScopePtr& scope);
  void Assign(const Target& target, const Value& value, const ScopePtr& scope);
  void Print(absl::string_view text, std::string& out);

  Value Evaluate(const Expression& expression, const ScopePtr& scope);
  Value EvaluateOptional(const ExpressionPtr& expression, const ScopePtr& scope);
  std::vector<Value> EvaluateParts(const Expression& expression, const ScopePtr& scope);
  Value EvaluateDict(const Expression& dict, const ScopePtr& scope);
  Value EvaluateCall(const Expression& call, const ScopePtr& scope, const Value* caller = nullptr);
  Value EvaluateConcatenation(const Expression& whole, const ScopePtr& scope);
  bool EvaluateCompare(const Expression& compare, const ScopePtr& scope);
  Value EvaluateFilters(const Expression& filter, const ScopePtr& scope, const Value* block);
  Value Lookup(const std::string& name, const ScopePtr& scope);
  Arguments EvaluateArguments(const std::vector<CallArgument>& given, const ScopePtr& scope);

  Machine& machine_;
  const Value& context_;
  std::vector<std::pair<absl::string_view, Value>> functions_;  // global functions used so far
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_INTERPRETER_H_
