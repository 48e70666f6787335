#include "data/text/jinja/interpreter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "data/text/jinja/filters.h"
#include "data/text/jinja/function.h"
#include "data/text/jinja/loop.h"
#include "data/text/jinja/methods.h"
#include "data/text/jinja/operators.h"
#include "data/text/jinja/tests.h"
#include "data/text/jinja/value_text.h"

namespace moonring::data::jinja {
namespace {

using Kind = Expression::Kind;

class Macro : public Object {
 public:
  Macro(Interpreter& interpreter, const Statement& definition, std::string name,
        Interpreter::ScopePtr around)
      : interpreter_(interpreter),
        definition_(definition),
        name_(std::move(name)),
        around_(std::move(around)) {}
  std::string TypeName() const override { return "jinja2.runtime.Macro"; }
  std::string Text() const override { return absl::StrCat("<Macro ", Quoted(name_), ">"); }
  bool IsCallable() const override { return true; }
  std::optional<Value> Attribute(absl::string_view name) override {
    return name == "name" ? std::optional(Value::Text(name_)) : std::nullopt;
  }
  Value Call(Machine&, const Arguments& arguments) override {
    return interpreter_.CallMacro(definition_, name_, around_, arguments);
  }

 private:
  Interpreter& interpreter_;
  const Statement& definition_;
  const std::string name_;
  const Interpreter::ScopePtr around_;
};

void SetName(Budget& budget, Interpreter::Scope& scope, const std::string& name, Value value) {
  budget.LookAt(static_cast<int64_t>(scope.values.size()));
  for (auto& [own, there] : scope.values) {
    if (own == name) {
      there = std::move(value);
      return;
    }
  }
  scope.values.emplace_back(name, std::move(value));
}

Interpreter::ScopePtr Within(const Interpreter::ScopePtr& around) {
  auto scope = std::make_shared<Interpreter::Scope>();
  scope->around = around;
  return scope;
}

}  // namespace

std::string Interpreter::Render(const Block& block) {
  std::string out;
  Execute(block, std::make_shared<Scope>(), out);
  return out;
}

void Interpreter::Print(absl::string_view text, std::string& out) {
  machine_.budget.Make(static_cast<int64_t>(text.size()));
  absl::StrAppend(&out, text);
}

// --- statements

Interpreter::Flow Interpreter::Execute(const Block& block, const ScopePtr& scope,
                                       std::string& out) {
  const Budget::Deeper deeper(machine_.budget);
  for (const auto& statement : block) {
    if (const Flow flow = ExecuteOne(*statement, scope, out); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::ExecuteOne(const Statement& statement, const ScopePtr& scope,
                                          std::string& out) {
  machine_.budget.Step();
  machine_.line = statement.line;
  switch (statement.kind) {
    case Statement::Kind::kText:
      Print(statement.text, out);
      break;
    case Statement::Kind::kPrint:
      Print(TextOf(machine_.budget, Evaluate(*statement.expressions[0], scope)), out);
      break;
    case Statement::Kind::kIf:
      return Execute(
          Evaluate(*statement.expressions[0], scope).Truth() ? statement.body : statement.otherwise,
          scope, out);
    case Statement::Kind::kFor:
      return ExecuteFor(statement, scope, out);
    case Statement::Kind::kSet:
      Assign(statement.targets[0], Evaluate(*statement.expressions[0], scope), scope);
      break;
    case Statement::Kind::kSetBlock: {
      const Value text = Value::Text(Inner(statement.body, scope));
      Assign(statement.targets[0],
             statement.expressions[0] == nullptr
                 ? text
                 : EvaluateFilters(*statement.expressions[0], scope, &text),
             scope);
      break;
    }
    case Statement::Kind::kWith:
      ExecuteWith(statement, scope, out);
      break;
    case Statement::Kind::kMacro:
      SetName(machine_.budget, *scope, statement.text,
              Value::Of(machine_.Make<Macro>(*this, statement, statement.text, scope)));
      break;
    case Statement::Kind::kCall:
      ExecuteCall(statement, scope, out);
      break;
    case Statement::Kind::kFilter: {
      const Value text = Value::Text(Inner(statement.body, scope));
      Print(TextOf(machine_.budget, EvaluateFilters(*statement.expressions[0], scope, &text)), out);
      break;
    }
    case Statement::Kind::kGeneration:
      Print(Inner(statement.body, scope), out);
      break;
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

// Renders a block in a new scope.
std::string Interpreter::Inner(const Block& block, const ScopePtr& scope) {
  std::string text;
  Execute(block, Within(scope), text);
  return text;
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement, const ScopePtr& scope,
                                          std::string& out) {
  const ExpressionPtr& test = statement.expressions[1];
  Loop::Condition condition;
  if (test != nullptr) {
    condition = [&](const Value& item) {
      const ScopePtr inner = Within(scope);
      Assign(statement.targets[0], item, inner);
      return Evaluate(*test, inner).Truth();
    };
  }
  const Value over = Evaluate(*statement.expressions[0], scope);
  Loop* loop = machine_.Make<Loop>(machine_, Items(machine_, over), std::move(condition));
  bool any = false;
  while (const std::optional<Value> item = loop->Next()) {
    any = true;
    const ScopePtr inner = Within(scope);
    SetName(machine_.budget, *inner, "loop", Value::Of(loop));
    Assign(statement.targets[0], *item, inner);
    if (Execute(statement.body, inner, out) == Flow::kBreak) break;
    machine_.line = statement.line;
  }
  loop->End();
  return any ? Flow::kOn : Execute(statement.otherwise, Within(scope), out);
}

void Interpreter::ExecuteWith(const Statement& with, const ScopePtr& scope, std::string& out) {
  const ScopePtr inner = Within(scope);
  for (size_t i = 0; i < with.targets.size(); ++i)
    Assign(with.targets[i], Evaluate(*with.expressions[i], scope), inner);
  Execute(with.body, inner, out);
}

void Interpreter::ExecuteCall(const Statement& call, const ScopePtr& scope, std::string& out) {
  const Value caller = Value::Of(machine_.Make<Macro>(*this, call, "caller", scope));
  Print(TextOf(machine_.budget, EvaluateCall(*call.expressions[0], scope, &caller)), out);
}

void Interpreter::Assign(const Target& target, const Value& value, const ScopePtr& scope) {
  if (target.is_tuple) {
    CheckDefined(value);
    const std::vector<Value> items = Items(machine_, value);
    if (items.size() < target.parts.size())
      Fail("not enough values to unpack (expected ", target.parts.size(), ", got ", items.size(),
           ")");
    if (items.size() > target.parts.size())
      Fail("too many values to unpack (expected ", target.parts.size(), ")");
    for (size_t i = 0; i < items.size(); ++i) Assign(target.parts[i], items[i], scope);
  } else if (target.attribute.empty()) {
    SetName(machine_.budget, *scope, target.name, value);
  } else {
    const Value holder = Lookup(target.name, scope);
    auto* names =
        holder.is(Value::Kind::kObject) ? dynamic_cast<Namespace*>(&holder.object()) : nullptr;
    if (names == nullptr) Fail("cannot assign attribute on non-namespace object");
    names->Set(target.attribute, value);
  }
}

Value Interpreter::CallMacro(const Statement& macro, const std::string& name,
                             const ScopePtr& around, const Arguments& arguments) {
  const Budget::Deeper deeper(machine_.budget);
  const size_t wanted = macro.parameters.size();
  const ScopePtr inner = Within(around);
  if (arguments.positional.size() > wanted && !macro.uses_varargs)
    Fail("macro ", Quoted(name), " takes not more than ", wanted, " argument(s)");
  Dict others;
  std::optional<Value> caller;
  std::vector<std::optional<Value>> given(
      arguments.positional.begin(),
      arguments.positional.begin() +
          static_cast<std::ptrdiff_t>(std::min(wanted, arguments.positional.size())));
  given.resize(wanted);
  for (const auto& [key, value] : arguments.named) {
    machine_.budget.LookAt(static_cast<int64_t>(wanted));
    const auto found =
        std::find_if(macro.parameters.begin(), macro.parameters.end(),
                     [&key = key](const Parameter& each) { return each.name == key; });
    const size_t place = found - macro.parameters.begin();
    if (place < wanted && !given[place].has_value()) {
      given[place] = value;
    } else if (key == "caller" && macro.uses_caller) {
      caller = value;
    } else if (macro.uses_kwargs) {
      others.Set(key, value);
    } else {
      Fail("macro ", Quoted(name), " takes no keyword argument ", Quoted(key));
    }
  }
  for (size_t i = 0; i < wanted; ++i) {
    const Parameter& parameter = macro.parameters[i];
    if (!given[i].has_value()) {
      given[i] = parameter.absent != nullptr
                     ? Evaluate(*parameter.absent, inner)
                     : Value::Undefined(
                           absl::StrCat("parameter ", Quoted(parameter.name), " was not provided"));
    }
    SetName(machine_.budget, *inner, parameter.name, *given[i]);
  }
  if (macro.uses_caller && macro.kind == Statement::Kind::kMacro &&
      std::none_of(macro.parameters.begin(), macro.parameters.end(),
                   [](const Parameter& each) { return each.name == "caller"; })) {
    SetName(machine_.budget, *inner, "caller",
            caller.value_or(Value::Undefined("No caller defined")));
  }
  if (macro.uses_kwargs) SetName(machine_.budget, *inner, "kwargs", machine_.Of(std::move(others)));
  if (macro.uses_varargs) {
    const auto first = arguments.positional.begin() +
                       static_cast<std::ptrdiff_t>(std::min(wanted, arguments.positional.size()));
    SetName(machine_.budget, *inner, "varargs",
            machine_.List({first, arguments.positional.end()}, Sequence::Kind::kTuple));
  }
  std::string text;
  const int line = machine_.line;
  Execute(macro.body, inner, text);
  machine_.line = line;
  return Value::Text(std::move(text));
}

// --- expressions

Value Interpreter::Lookup(const std::string& name, const ScopePtr& scope) {
  for (const Scope* at = scope.get(); at != nullptr; at = at->around.get()) {
    machine_.budget.LookAt(static_cast<int64_t>(at->values.size()) + 1);
    for (const auto& [own, value] : at->values) {
      if (own == name) return value;
    }
  }
  if (const Value* found = context_.dict().Find(name)) return *found;
  for (const auto& [own, value] : functions_) {
    if (own == name) return value;
  }
  const std::optional<Value> function = GlobalFunction(machine_, name);
  if (!function.has_value()) return Value::Undefined(absl::StrCat(Quoted(name), " is undefined"));
  functions_.emplace_back(name, *function);
  return *function;
}

Value Interpreter::Evaluate(const Expression& expression, const ScopePtr& scope) {
  const Budget::Deeper deeper(machine_.budget);
  machine_.budget.Step();
  machine_.line = expression.line;
  const auto part = [&](size_t i) { return Evaluate(*expression.parts[i], scope); };
  switch (expression.kind) {
    case Kind::kConstant:
      return expression.constant;
    case Kind::kName:
      return Lookup(expression.name, scope);
    case Kind::kList:
      return machine_.List(EvaluateParts(expression, scope));
    case Kind::kTuple:
      return machine_.List(EvaluateParts(expression, scope), Sequence::Kind::kTuple);
    case Kind::kDict:
      return EvaluateDict(expression, scope);
    case Kind::kAttribute:
      return Attribute(machine_, part(0), expression.name);
    case Kind::kItem: {
      const Value value = part(0);
      return Item(machine_, value, part(1));
    }
    case Kind::kSlice: {
      const Value value = part(0), begin = EvaluateOptional(expression.parts[1], scope),
                  end = EvaluateOptional(expression.parts[2], scope);
      return Slice(machine_, value, begin, end, EvaluateOptional(expression.parts[3], scope));
    }
    case Kind::kCall:
      return EvaluateCall(expression, scope);
    case Kind::kFilter:
      return EvaluateFilters(expression, scope, nullptr);
    case Kind::kTest: {
      const Value value = part(0);
      return Value::Bool(HoldsTest(machine_, expression.name, value,
                                   EvaluateArguments(expression.arguments, scope)));
    }
    case Kind::kNot:
      return Value::Bool(!part(0).Truth());
    case Kind::kNegative:
      return Negative(part(0));
    case Kind::kPositive: {
      const Value value = part(0);
      CheckDefined(value);
      if (!value.is_number()) Fail("bad operand type for unary +: '", value.TypeName(), "'");
      return value.is_integer() ? Value::Int(value.integer()) : value;
    }
    case Kind::kArithmetic: {
      const Value left = part(0);
      return Arithmetic(machine_, expression.name, left, part(1));
    }
    case Kind::kConcatenate:
      return EvaluateConcatenation(expression, scope);
    case Kind::kCompare:
      return Value::Bool(EvaluateCompare(expression, scope));
    case Kind::kAnd: {
      Value left = part(0);
      return left.Truth() ? part(1) : left;
    }
    case Kind::kOr: {
      Value left = part(0);
      return left.Truth() ? left : part(1);
    }
    case Kind::kConditional:
      if (part(0).Truth()) return part(1);
      if (expression.parts[2] != nullptr) return part(2);
      return Value::Undefined(absl::StrCat("the inline if-expression on line ", expression.line,
                                           " evaluated to false and no else section was defined."));
  }
  return Value();
}

Value Interpreter::EvaluateOptional(const ExpressionPtr& expression, const ScopePtr& scope) {
  return expression == nullptr ? Value() : Evaluate(*expression, scope);
}

std::vector<Value> Interpreter::EvaluateParts(const Expression& expression, const ScopePtr& scope) {
  std::vector<Value> values;
  for (const ExpressionPtr& part : expression.parts) values.push_back(Evaluate(*part, scope));
  return values;
}

Value Interpreter::EvaluateDict(const Expression& expression, const ScopePtr& scope) {
  Dict dict;
  for (size_t i = 0; i < expression.parts.size(); i += 2) {
    Value key = Evaluate(*expression.parts[i], scope);
    Value value = Evaluate(*expression.parts[i + 1], scope);
    CheckHashable(machine_.budget, key);
    dict.Set(machine_.budget, std::move(key), std::move(value));
  }
  return machine_.Of(std::move(dict));
}

Value Interpreter::EvaluateConcatenation(const Expression& whole, const ScopePtr& scope) {
  std::string text;
  for (const Value& part : EvaluateParts(whole, scope)) Print(TextOf(machine_.budget, part), text);
  return Value::Text(std::move(text));
}

bool Interpreter::EvaluateCompare(const Expression& compare, const ScopePtr& scope) {
  Value left = Evaluate(*compare.parts[0], scope);
  for (size_t i = 0; i < compare.operators.size(); ++i) {
    Value right = Evaluate(*compare.parts[i + 1], scope);
    if (!Compare(machine_.budget, compare.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::EvaluateArguments(const std::vector<CallArgument>& given,
                                         const ScopePtr& scope) {
  Arguments arguments;
  for (const CallArgument& argument : given) {
    const Value value = Evaluate(*argument.value, scope);
    switch (argument.kind) {
      case CallArgument::Kind::kPositional:
        arguments.positional.push_back(value);
        break;
      case CallArgument::Kind::kNamed:
        arguments.named.emplace_back(argument.name, value);
        break;
      case CallArgument::Kind::kList:
        for (Value& item : Items(machine_, value)) arguments.positional.push_back(std::move(item));
        break;
      case CallArgument::Kind::kDict:
        if (!value.is(Value::Kind::kDict))
          Fail("argument after ** must be a mapping, not ", value.TypeName());
        for (const auto& [key, each] : value.dict().entries()) {
          if (!key.is_text()) Fail("keywords must be strings");
          machine_.budget.Make(static_cast<int64_t>(key.text().size()) + 64);
          arguments.named.emplace_back(key.text(), each);
        }
    }
  }
  return arguments;
}

Value Interpreter::EvaluateCall(const Expression& call, const ScopePtr& scope,
                                const Value* caller) {
  const Expression& callee = *call.parts[0];
  const auto arguments = [&] {
    Arguments given = EvaluateArguments(call.arguments, scope);
    if (caller != nullptr) given.named.emplace_back("caller", *caller);
    return given;
  };
  Value function;
  if (callee.kind == Kind::kAttribute) {
    const Value value = Evaluate(*callee.parts[0], scope);
    if (HasMethod(value, callee.name) && !IsUnsafe(value, callee.name))
      return CallMethod(machine_, value, callee.name, arguments());
    function = Attribute(machine_, value, callee.name);
  } else {
    function = Evaluate(callee, scope);
  }
  CheckDefined(function);
  if (!function.is(Value::Kind::kObject))
    Fail("'", function.TypeName(), "' object is not callable");
  const Arguments given = arguments();
  machine_.line = call.line;
  return function.object().Call(machine_, given);
}

// `block`: for a filter block, the rendered text to which the innermost filter is applied.
Value Interpreter::EvaluateFilters(const Expression& filter, const ScopePtr& scope,
                                   const Value* block) {
  const ExpressionPtr& inner = filter.parts[0];
  const Value value = inner == nullptr ? *block
                      : block != nullptr && inner->kind == Kind::kFilter
                          ? EvaluateFilters(*inner, scope, block)
                          : Evaluate(*inner, scope);
  const Arguments arguments = EvaluateArguments(filter.arguments, scope);
  machine_.line = filter.line;
  return ApplyFilter(machine_, filter.name, value, arguments);
}

}  // namespace moonring::data::jinja
