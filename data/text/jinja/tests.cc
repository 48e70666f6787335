#include "data/text/jinja/tests.h"

#include "absl/container/flat_hash_map.h"
#include "data/text/jinja/filters.h"
#include "data/text/jinja/operators.h"
#include "data/text/jinja/python_text.h"
#include "data/text/jinja/value_text.h"

namespace moonring::data::jinja {
namespace {

using Test = bool (*)(Machine& machine, const Value& value);
using TestOfTwo = bool (*)(Machine& machine, const Value& value, const Value& other);

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.is(Value::Kind::kSequence) ||
         value.is(Value::Kind::kDict);
}

// Whether Python's len() and [] work on the value.
bool IsSequence(const Value& value) {
  if (!value.is(Value::Kind::kSequence))
    return value.is_undefined() || value.is_text() || value.is(Value::Kind::kDict);
  const Sequence::Kind kind = value.sequence().kind;
  return kind == Sequence::Kind::kList || kind == Sequence::Kind::kTuple ||
         kind == Sequence::Kind::kRange;
}

bool IsRemainder(Machine& machine, const Value& value, int64_t divisor, int64_t remainder) {
  return Equal(machine.budget, Arithmetic(machine, "%", value, Value::Int(divisor)),
               Value::Int(remainder));
}

bool HasCase(Machine& machine, const Value& value, absl::string_view letters) {
  const std::string text = TextOf(machine.budget, value);
  machine.budget.Scan(static_cast<int64_t>(text.size()));
  return IsAll(text, letters);
}

const absl::flat_hash_map<absl::string_view, Test>& Tests() {
  static const auto* const tests = new absl::flat_hash_map<absl::string_view, Test>{
      {"boolean", [](Machine&, const Value& value) { return value.is(Value::Kind::kBool); }},
      {"callable",
       [](Machine&, const Value& value) {
         return value.is_undefined() ||
                (value.is(Value::Kind::kObject) && value.object().IsCallable());
       }},
      {"defined", [](Machine&, const Value& value) { return !value.is_undefined(); }},
      {"escaped", [](Machine&, const Value& value) { return value.is_markup(); }},
      {"even",
       [](Machine& machine, const Value& value) { return IsRemainder(machine, value, 2, 0); }},
      {"false",
       [](Machine&, const Value& value) { return value.is(Value::Kind::kBool) && !value.Truth(); }},
      {"filter",
       [](Machine&, const Value& value) { return value.is_text() && IsFilter(value.text()); }},
      {"float", [](Machine&, const Value& value) { return value.is(Value::Kind::kFloat); }},
      {"integer", [](Machine&, const Value& value) { return value.is(Value::Kind::kInt); }},
      {"iterable", [](Machine&, const Value& value) { return IsIterable(value); }},
      {"lower",
       [](Machine& machine, const Value& value) { return HasCase(machine, value, "lower"); }},
      {"mapping", [](Machine&, const Value& value) { return value.is(Value::Kind::kDict); }},
      {"none", [](Machine&, const Value& value) { return value.is_none(); }},
      {"number", [](Machine&, const Value& value) { return value.is_number(); }},
      {"odd",
       [](Machine& machine, const Value& value) { return IsRemainder(machine, value, 2, 1); }},
      {"sequence", [](Machine&, const Value& value) { return IsSequence(value); }},
      {"string", [](Machine&, const Value& value) { return value.is_text(); }},
      {"true",
       [](Machine&, const Value& value) { return value.is(Value::Kind::kBool) && value.Truth(); }},
      {"undefined", [](Machine&, const Value& value) { return value.is_undefined(); }},
      {"upper",
       [](Machine& machine, const Value& value) { return HasCase(machine, value, "upper"); }},
  };
  return *tests;
}

const absl::flat_hash_map<absl::string_view, TestOfTwo>& TestsOfTwo() {
  static const auto* const tests = [] {
    auto* made = new absl::flat_hash_map<absl::string_view, TestOfTwo>{
        {"divisibleby",
         [](Machine& machine, const Value& value, const Value& other) {
           return Equal(machine.budget, Arithmetic(machine, "%", value, other), Value::Int(0));
         }},
        {"in", [](Machine& machine, const Value& value,
                  const Value& other) { return Contains(machine.budget, other, value); }},
        {"sameas",
         [](Machine& machine, const Value& value, const Value& other) {
           if (value.is_text()) machine.budget.Read(static_cast<int64_t>(value.text().size()));
           return value.SameObject(other);
         }},
    };
    const auto add = [made](std::initializer_list<absl::string_view> names, TestOfTwo test) {
      for (const absl::string_view name : names) made->emplace(name, test);
    };
    add({"==", "eq", "equalto"}, [](Machine& machine, const Value& value, const Value& other) {
      return Equal(machine.budget, value, other);
    });
    add({"!=", "ne"}, [](Machine& machine, const Value& value, const Value& other) {
      return !Equal(machine.budget, value, other);
    });
    add({"<", "lt", "lessthan"}, [](Machine& machine, const Value& value, const Value& other) {
      return Compare(machine.budget, "<", value, other);
    });
    add({"<=", "le"}, [](Machine& machine, const Value& value, const Value& other) {
      return Compare(machine.budget, "<=", value, other);
    });
    add({">", "gt", "greaterthan"}, [](Machine& machine, const Value& value, const Value& other) {
      return Compare(machine.budget, ">", value, other);
    });
    add({">=", "ge"}, [](Machine& machine, const Value& value, const Value& other) {
      return Compare(machine.budget, ">=", value, other);
    });
    return made;
  }();
  return *tests;
}

}  // namespace

bool HoldsTest(Machine& machine, absl::string_view name, const Value& value,
               const Arguments& arguments) {
  machine.budget.Step();
  if (const auto found = Tests().find(name); found != Tests().end()) {
    arguments.Bind(name, {});
    return found->second(machine, value);
  }
  if (const auto found = TestsOfTwo().find(name); found != TestsOfTwo().end()) {
    const std::vector<std::optional<Value>> bound = arguments.Bind(name, {"other"});
    if (!bound[0].has_value()) Fail("the test '", name, "' requires a value to compare with");
    return found->second(machine, value, *bound[0]);
  }
  if (name == "test")
    return value.is_text() && (Tests().contains(value.text()) ||
                               TestsOfTwo().contains(value.text()) || value.text() == "test");
  Fail("No test named '", name, "'.");
}

}  // namespace moonring::data::jinja
