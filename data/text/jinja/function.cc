#include "data/text/jinja/function.h"

#include <ctime>

#include "data/text/jinja/operators.h"
#include "data/text/jinja/value_text.h"

namespace moonring::data::jinja {
namespace {

constexpr int64_t kMostInRange = 100'000;  // limit of Jinja2's sandbox

Value RangeFunction(Machine& machine, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (!arguments.named.empty()) Fail("range() takes no keyword arguments");
  if (given.empty() || given.size() > 3)
    Fail("range expected 1 to 3 arguments, got ", given.size());
  for (const Value& each : given) {
    CheckDefined(each);
    if (!each.is_integer())
      Fail("'", each.TypeName(), "' object cannot be interpreted as an integer");
  }
  const int64_t begin = given.size() > 1 ? given[0].integer() : 0,
                end = given[given.size() > 1 ? 1 : 0].integer();
  const int64_t step = given.size() > 2 ? given[2].integer() : 1;
  if (step == 0) Fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<int64_t>(items.size()) == kMostInRange)
      Fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMostInRange, ").");
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return machine.List(std::move(items), Sequence::Kind::kRange);
}

// dict(mapping or pairs, name=value, ...)
Dict DictOf(Machine& machine, const Arguments& arguments) {
  if (arguments.positional.size() > 1)
    Fail("dict expected at most 1 argument, got ", arguments.positional.size());
  Dict dict;
  if (!arguments.positional.empty() && arguments.positional[0].is(Value::Kind::kDict)) {
    dict = arguments.positional[0].dict();
    machine.budget.Make(static_cast<int64_t>(dict.entries().size()), 128);
  } else if (!arguments.positional.empty()) {
    for (const Value& pair : Items(machine, arguments.positional[0])) {
      std::vector<Value> two = Items(machine, pair);
      if (two.size() != 2)
        Fail("dictionary update sequence element has length ", two.size(), "; 2 is required");
      CheckHashable(machine.budget, two[0]);
      dict.Set(machine.budget, std::move(two[0]), std::move(two[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) dict.Set(name, value);
  return dict;
}

// joiner: a function that returns "" the first time and then always `sep`.
Value Joiner(Machine& machine, const Arguments& arguments) {
  const Bound bound = arguments.Bind("joiner", {"sep"});
  const Value separator = bound[0].value_or(Value::Text(", "));
  return Value::Of(machine.Make<Function>(
      "joiner", [separator, used = false](Machine&, const Arguments&) mutable {
        return std::exchange(used, true) ? separator : Value::Text("");
      }));
}

Value RaiseException(Machine& machine, const Arguments& arguments) {
  const Bound bound = arguments.Bind("raise_exception", {"message"});
  Fail(bound[0].has_value() ? TextOf(machine.budget, *bound[0])
                            : "raise_exception() requires a message");
}

Value StrftimeNow(Machine& machine, const Arguments& arguments) {
  const Bound bound = arguments.Bind("strftime_now", {"format"});
  if (!bound[0].has_value() || !bound[0]->is_text()) Fail("strftime_now() requires a format");
  const std::string& format = bound[0]->text();
  if (format.empty()) return Value::Text("");
  const std::time_t now = static_cast<std::time_t>(machine.now.value_or(std::time(nullptr)));
  std::tm parts = {};
  localtime_r(&now, &parts);
  machine.budget.Make(static_cast<int64_t>(format.size()) + 1, 64);
  std::string text(64 * format.size() + 64, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &parts));
  return Value::Text(std::move(text));
}

}  // namespace

std::optional<Value> GlobalFunction(Machine& machine, absl::string_view name) {
  static const std::pair<absl::string_view, Value (*)(Machine&, const Arguments&)> kFunctions[] = {
      {"range", &RangeFunction},
      {"dict",
       [](Machine& at, const Arguments& arguments) { return at.Of(DictOf(at, arguments)); }},
      {"namespace",
       [](Machine& at, const Arguments& arguments) {
         return Value::Of(at.Make<Namespace>(DictOf(at, arguments)));
       }},
      {"joiner", &Joiner},
      {"raise_exception", &RaiseException},
      {"strftime_now", &StrftimeNow},
  };
  for (const auto& [own, function] : kFunctions) {
    if (own == name) return Value::Of(machine.Make<Function>(std::string(name), function));
  }
  if (name == "cycler" || name == "lipsum") Unsupported("the function '", name, "'");
  return std::nullopt;
}

}  // namespace moonring::data::jinja
