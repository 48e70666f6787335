#include "data/text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/text/jinja/methods.h"
#include "data/text/jinja/python_text.h"
#include "data/text/jinja/text_format.h"
#include "data/text/jinja/text_search.h"
#include "data/text/jinja/value_text.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data::jinja {
namespace {

enum class Order { kLess, kEqual, kGreater, kNone };

template <typename T>
Order OrderOf(const T& a, const T& b) {
  return a < b ? Order::kLess : b < a ? Order::kGreater : a == b ? Order::kEqual : Order::kNone;
}

Order OrderOf(Budget& budget, absl::string_view operation, const Value& a, const Value& b) {
  budget.Step();
  CheckDefined(a);
  CheckDefined(b);
  if (a.is_number() && b.is_number()) {  // long double represents every int64 and every double
    const auto wide = [](const Value& value) -> long double {
      return value.is_integer() ? static_cast<long double>(value.integer())
                                : static_cast<long double>(value.number());
    };
    return OrderOf(wide(a), wide(b));
  }
  if (a.is_text() && b.is_text()) {
    budget.Read(static_cast<int64_t>(std::min(a.text().size(), b.text().size())));
    // the byte order of UTF-8 is the code point order
    return OrderOf(a.text().compare(b.text()), 0);
  }
  const bool lists = a.is(Sequence::Kind::kList) && b.is(Sequence::Kind::kList);
  if (!lists && !(a.is(Sequence::Kind::kTuple) && b.is(Sequence::Kind::kTuple))) {
    Fail("'", operation, "' not supported between instances of '", a.TypeName(), "' and '",
         b.TypeName(), "'");
  }
  const std::vector<Value>&left = a.sequence().items, &right = b.sequence().items;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!Equal(budget, left[i], right[i])) return OrderOf(budget, operation, left[i], right[i]);
  }
  return OrderOf(left.size(), right.size());
}

bool EqualItems(Budget& budget, const std::vector<Value>& a, const std::vector<Value>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [&](const Value& x, const Value& y) { return Equal(budget, x, y); });
}

bool EqualDicts(Budget& budget, const Dict& a, const Dict& b) {
  return a.entries().size() == b.entries().size() &&
         std::all_of(a.entries().begin(), a.entries().end(), [&](const auto& entry) {
           const Value* other = b.Find(budget, entry.first);
           return other != nullptr && Equal(budget, entry.second, *other);
         });
}

[[noreturn]] void TooLarge() { Unsupported("integers beyond 64 bits"); }

int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0) Fail("integer division or modulo by zero");
  if (a == std::numeric_limits<int64_t>::min() && b == -1) TooLarge();
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

Value Power(const Value& a, const Value& b) {
  if (!a.is_integer() || !b.is_integer() || b.integer() < 0) {
    if (a.number() == 0 && b.number() < 0) Fail("0.0 cannot be raised to a negative power");
    if (a.number() < 0 && std::floor(b.number()) != b.number()) Unsupported("complex numbers");
    return Value::Float(std::pow(a.number(), b.number()));
  }
  int64_t result = 1, base = a.integer();
  for (int64_t left = b.integer(); left > 0; left >>= 1) {
    if ((left & 1) != 0 && __builtin_mul_overflow(result, base, &result)) TooLarge();
    if (left > 1 && __builtin_mul_overflow(base, base, &base)) TooLarge();
  }
  return Value::Int(result);
}

Value IntegerArithmetic(absl::string_view operation, int64_t a, int64_t b) {
  if (operation == "//") return Value::Int(FloorDivide(a, b));
  if (operation == "%") return Value::Int(b == -1 ? 0 : a - FloorDivide(a, b) * b);
  int64_t result = 0;
  const bool overflows = operation == "+"   ? __builtin_add_overflow(a, b, &result)
                         : operation == "-" ? __builtin_sub_overflow(a, b, &result)
                                            : __builtin_mul_overflow(a, b, &result);
  if (overflows) TooLarge();
  return Value::Int(result);
}

Value FloatArithmetic(absl::string_view operation, double a, double b) {
  if (operation == "+") return Value::Float(a + b);
  if (operation == "-") return Value::Float(a - b);
  if (operation == "*") return Value::Float(a * b);
  if (b == 0)
    Fail(operation == "/"    ? "division by zero"
         : operation == "//" ? "float floor division by zero"
                             : "float modulo");
  if (operation == "/") return Value::Float(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 ? (rest < 0) != (b < 0) : false) rest += b;
  if (operation == "%") return Value::Float(rest == 0 ? std::copysign(0.0, b) : rest);
  const double quotient = (a - rest) / b;
  const double floored = std::floor(quotient);
  return Value::Float(quotient == 0              ? std::copysign(0.0, a / b)
                      : quotient - floored > 0.5 ? floored + 1
                                                 : floored);
}

// A string, list or tuple repeated `times` times.
Value Repeated(Machine& machine, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (value.is_text()) {
    machine.budget.Make(times, static_cast<int64_t>(value.text().size()));
    std::string text;
    for (int64_t i = 0; i < times && !value.text().empty(); ++i) text += value.text();
    return machine.TextLike(value, std::move(text));
  }
  const std::vector<Value>& items = value.sequence().items;
  machine.budget.Make(times, static_cast<int64_t>(items.size()) * 32);
  std::vector<Value> all;
  for (int64_t i = 0; i < times && !items.empty(); ++i)
    all.insert(all.end(), items.begin(), items.end());
  return machine.List(std::move(all), value.sequence().kind);
}

bool IsListOrTuple(const Value& value) {
  return value.is(Sequence::Kind::kList) || value.is(Sequence::Kind::kTuple);
}

// How Jinja2 names a value in messages about a missing attribute or item.
std::string Described(const Value& value) {
  if (value.is_none()) return "None";
  return value.TypeName() + " object";
}

// Shortens a name for a message, which an undefined value stores.
absl::string_view Shortened(absl::string_view name) {
  constexpr size_t kMost = 200;
  size_t end = std::min(name.size(), kMost);
  while (end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end);
}

Value NoAttribute(const Value& value, absl::string_view name) {
  return Value::Undefined(
      absl::StrCat(Quoted(Described(value)), " has no attribute ", Quoted(Shortened(name))));
}

std::optional<Value> FindAttribute(Machine& machine, const Value& value, absl::string_view name) {
  if (value.is(Value::Kind::kObject)) return value.object().Attribute(name);
  if (value.is_number() && name == "real")
    return value.is_integer() ? Value::Int(value.integer()) : value;
  if (!HasMethod(value, name)) return std::nullopt;
  if (IsUnsafe(value, name))
    return Value::Undefined(absl::StrCat("access to attribute ", Quoted(name), " of '",
                                         value.TypeName(), "' object is unsafe."));
  return Value::Of(machine.Make<Method>(value, std::string(name)));
}

// value[key]; nullopt where Python would raise.
std::optional<Value> FindItem(Budget& budget, const Value& value, const Value& key) {
  if (value.is(Value::Kind::kDict)) {
    const Value* found = value.dict().Find(budget, key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const bool indexed = value.is_text() || IsListOrTuple(value) || value.is(Sequence::Kind::kRange);
  if (!indexed || !key.is_integer()) return std::nullopt;
  const int64_t length = Length(budget, value),
                index = key.integer() < 0 ? key.integer() + length : key.integer();
  if (index < 0 || index >= length) return std::nullopt;
  if (!value.is_text()) return value.sequence().items[index];
  budget.Scan(static_cast<int64_t>(value.text().size()));
  const std::string letter = Part(value.text(), {index, index + 1});
  return value.is_markup() ? Value::Markup(letter) : Value::Text(letter);
}

std::optional<int64_t> SliceIndex(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (!value.is_integer())
    Fail("slice indices must be integers or None or have an __index__ method");
  return value.integer();
}

// The indices that begin:end:step selects from `length`, as Python's slice.indices.
std::vector<int64_t> SlicePlaces(Budget& budget, int64_t length, const Value& begin,
                                 const Value& end, const Value& step) {
  const int64_t stride = SliceIndex(step).value_or(1);
  if (stride == 0) Fail("slice step cannot be zero");
  const int64_t least = stride > 0 ? 0 : -1, most = stride > 0 ? length : length - 1;
  const auto place = [&](const Value& index, int64_t absent) {
    const std::optional<int64_t> given = SliceIndex(index);
    if (!given.has_value()) return absent;
    return std::clamp(*given < 0 ? *given + length : *given, least, most);
  };
  const int64_t from = place(begin, stride > 0 ? 0 : length - 1),
                to = place(end, stride > 0 ? length : -1);
  std::vector<int64_t> places;
  budget.Make(length, 8);
  for (int64_t i = from; stride > 0 ? i < to : i > to;) {
    places.push_back(i);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  return places;
}

}  // namespace

void CheckDefined(const Value& value) {
  if (value.is_undefined()) Fail(value.why());
}

void CheckHashable(Budget& budget, const Value& key) {
  budget.Step();
  if (key.is(Value::Kind::kDict) || key.is(Sequence::Kind::kList))
    Fail("unhashable type: '", key.TypeName(), "'");
  if (key.is(Sequence::Kind::kTuple)) {
    for (const Value& item : key.sequence().items) CheckHashable(budget, item);
  }
}

std::optional<std::string> KeyText(Budget& budget, const Value& key) {
  budget.Step();
  switch (key.kind()) {
    case Value::Kind::kUndefined:
      return "undefined";
    case Value::Kind::kNone:
      return "none";
    case Value::Kind::kBool:
    case Value::Kind::kInt:
      return absl::StrCat(key.integer());
    case Value::Kind::kFloat: {
      const double number = key.number();
      if (std::isnan(number)) return std::nullopt;
      if (std::floor(number) == number && std::fabs(number) < 9.2e18)
        return absl::StrCat(static_cast<int64_t>(number));
      return absl::StrFormat("%a", number);
    }
    case Value::Kind::kText:
      budget.Read(static_cast<int64_t>(key.text().size()));
      budget.Make(static_cast<int64_t>(key.text().size()));
      return absl::StrCat("text ", key.text().size(), ":", key.text());
    case Value::Kind::kSequence: {
      if (key.is(Sequence::Kind::kIterator)) return absl::StrFormat("iterator %p", &key.sequence());
      std::string whole = absl::StrCat(key.TypeName(), "(");
      for (const Value& item : key.sequence().items) {
        const std::optional<std::string> part = KeyText(budget, item);
        if (!part.has_value()) return std::nullopt;
        budget.Make(static_cast<int64_t>(part->size()) + 1);
        absl::StrAppend(&whole, *part, ",");
      }
      return whole + ")";
    }
    case Value::Kind::kDict:
      return std::nullopt;
    case Value::Kind::kObject:
      return absl::StrFormat("object %p", &key.object());
  }
  return std::nullopt;
}

bool Equal(Budget& budget, const Value& a, const Value& b) {
  budget.Step();
  if (a.is_number() && b.is_number()) return OrderOf(budget, "==", a, b) == Order::kEqual;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kText:
      if (a.text().size() != b.text().size()) return false;
      budget.Read(static_cast<int64_t>(a.text().size()));
      return a.text() == b.text();
    case Value::Kind::kSequence:
      if (a.sequence().kind != b.sequence().kind || a.is(Sequence::Kind::kIterator))
        return a.SameObject(b);
      return EqualItems(budget, a.sequence().items, b.sequence().items);
    case Value::Kind::kDict:
      return EqualDicts(budget, a.dict(), b.dict());
    default:
      return a.SameObject(b);
  }
}

bool Less(Budget& budget, const Value& a, const Value& b) {
  return OrderOf(budget, "<", a, b) == Order::kLess;
}

bool Contains(Budget& budget, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Value::Kind::kUndefined:
      return false;
    case Value::Kind::kText:
      if (!item.is_text())
        Fail("'in <string>' requires string as left operand, not ", item.TypeName());
      return FindPlace(budget, container.text(), item.text(), false) != std::string::npos;
    case Value::Kind::kDict:
      CheckHashable(budget, item);
      return container.dict().Find(budget, item) != nullptr;
    case Value::Kind::kSequence: {
      const Sequence& sequence = container.sequence();
      for (size_t& i = sequence.next;
           sequence.kind == Sequence::Kind::kIterator &&
           i < sequence.items.size();) {  // consumes all items up to the one found
        if (Equal(budget, sequence.items[i++], item)) return true;
      }
      return sequence.kind != Sequence::Kind::kIterator &&
             std::any_of(sequence.items.begin(), sequence.items.end(),
                         [&](const Value& each) { return Equal(budget, each, item); });
    }
    default:
      Fail("argument of type '", container.TypeName(), "' is not iterable");
  }
}

bool Compare(Budget& budget, absl::string_view operation, const Value& a, const Value& b) {
  if (operation == "==") return Equal(budget, a, b);
  if (operation == "!=") return !Equal(budget, a, b);
  if (operation == "in") return Contains(budget, b, a);
  if (operation == "not in") return !Contains(budget, b, a);
  const Order order = OrderOf(budget, operation, a, b);
  if (operation == "<") return order == Order::kLess;
  if (operation == "<=") return order == Order::kLess || order == Order::kEqual;
  if (operation == ">") return order == Order::kGreater;
  return order == Order::kGreater || order == Order::kEqual;
}

Value Arithmetic(Machine& machine, absl::string_view operation, const Value& a, const Value& b) {
  if (operation == "%" && a.is_markup()) Unsupported("% on markup");
  if (operation == "%" && a.is_text()) return machine.Text(PercentFormat(machine, a.text(), b));
  CheckDefined(a);
  CheckDefined(b);
  if (a.is_number() && b.is_number()) {
    if (operation == "**") return Power(a, b);
    if (operation != "/" && a.is_integer() && b.is_integer())
      return IntegerArithmetic(operation, a.integer(), b.integer());
    return FloatArithmetic(operation, a.number(), b.number());
  }
  if (operation == "+" && a.is_text() && b.is_text()) {
    machine.budget.Make(static_cast<int64_t>(a.text().size() + b.text().size()));
    if (!a.is_markup() && !b.is_markup()) return Value::Text(a.text() + b.text());
    const auto escaped = [&](const Value& value) {
      return value.is_markup() ? value.text() : Escaped(machine.budget, value.text());
    };
    return Value::Markup(escaped(a) + escaped(b));
  }
  if (operation == "+" && IsListOrTuple(a) &&
      b.is(a.is(Value::Kind::kSequence) ? a.sequence().kind : Sequence::Kind::kList)) {
    machine.budget.Read(static_cast<int64_t>(a.sequence().items.size()) * 32);
    std::vector<Value> items = a.sequence().items;
    items.insert(items.end(), b.sequence().items.begin(), b.sequence().items.end());
    return machine.List(std::move(items), a.sequence().kind);
  }
  if (operation == "*" && (a.is_text() || IsListOrTuple(a)) && b.is_integer())
    return Repeated(machine, a, b.integer());
  if (operation == "*" && (b.is_text() || IsListOrTuple(b)) && a.is_integer())
    return Repeated(machine, b, a.integer());
  if (operation == "+" && a.is_text())
    Fail("can only concatenate str (not \"", b.TypeName(), "\") to str");
  Fail("unsupported operand type(s) for ", operation, ": '", a.TypeName(), "' and '", b.TypeName(),
       "'");
}

Value Negative(const Value& value) {
  CheckDefined(value);
  if (!value.is_number()) Fail("bad operand type for unary -: '", value.TypeName(), "'");
  if (value.is(Value::Kind::kFloat)) return Value::Float(-value.number());
  return IntegerArithmetic("-", 0, value.integer());
}

std::vector<Value> Items(Machine& machine, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      break;
    case Value::Kind::kText: {
      const std::string& text = value.text();
      machine.budget.Make(static_cast<int64_t>(text.size()), 64);
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        NextCodePoint(text, at);
        items.push_back(Value::Text(text.substr(begin, at - begin)));
      }
      break;
    }
    case Value::Kind::kDict:
      machine.budget.Make(static_cast<int64_t>(value.dict().entries().size()), 32);
      for (const auto& [key, unused] : value.dict().entries()) items.push_back(key);
      break;
    case Value::Kind::kSequence: {
      const Sequence& sequence = value.sequence();
      machine.budget.Make(static_cast<int64_t>(sequence.items.size()), 32);
      const auto first = sequence.items.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                      sequence.next, sequence.items.size()));
      items.assign(first, sequence.items.end());
      if (sequence.kind == Sequence::Kind::kIterator) sequence.next = sequence.items.size();
      break;
    }
    default:
      Fail("'", value.TypeName(), "' object is not iterable");
  }
  return items;
}

int64_t Length(Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return 0;
    case Value::Kind::kText:
      budget.Scan(static_cast<int64_t>(value.text().size()));
      return LengthOf(value.text());
    case Value::Kind::kDict:
      return static_cast<int64_t>(value.dict().entries().size());
    case Value::Kind::kSequence:
      if (!value.is(Sequence::Kind::kIterator))
        return static_cast<int64_t>(value.sequence().items.size());
      [[fallthrough]];
    default:
      Fail("object of type '", value.TypeName(), "' has no len()");
  }
}

Value Attribute(Machine& machine, const Value& value, absl::string_view name) {
  CheckDefined(value);
  if (const std::optional<Value> found = FindAttribute(machine, value, name); found.has_value())
    return *found;
  if (value.is(Value::Kind::kDict)) {
    if (const Value* item = value.dict().Find(name)) return *item;
  }
  return NoAttribute(value, name);
}

Value Item(Machine& machine, const Value& value, const Value& key) {
  CheckDefined(value);
  if (std::optional<Value> item = FindItem(machine.budget, value, key); item.has_value())
    return *std::move(item);
  if (!key.is_text())
    return Value::Undefined(
        absl::StrCat(Described(value), " has no element ", Shortened(ReprOf(machine.budget, key))));
  const std::optional<Value> found = FindAttribute(machine, value, key.text());
  return found.has_value() ? *found : NoAttribute(value, key.text());
}

Value Slice(Machine& machine, const Value& value, const Value& begin, const Value& end,
            const Value& step) {
  CheckDefined(value);
  if (value.is_text()) {
    machine.budget.Scan(static_cast<int64_t>(value.text().size()));
    if (step.is_none() || (step.is_integer() && step.integer() == 1)) {
      return machine.TextLike(value, Part(value.text(), {SliceIndex(begin), SliceIndex(end)}));
    }
    machine.budget.Make(static_cast<int64_t>(value.text().size()), 4);
    const std::u32string whole = CodePoints(value.text());
    std::u32string part;
    for (const int64_t place :
         SlicePlaces(machine.budget, static_cast<int64_t>(whole.size()), begin, end, step))
      part += whole[place];
    return machine.TextLike(value, Utf8(part));
  }
  if (!IsListOrTuple(value) && !value.is(Sequence::Kind::kRange)) {
    if (value.is(Value::Kind::kDict)) Fail("unhashable type: 'slice'");
    Fail("'", value.TypeName(), "' object is not subscriptable");
  }
  std::vector<Value> items;
  for (const int64_t place :
       SlicePlaces(machine.budget, Length(machine.budget, value), begin, end, step))
    items.push_back(value.sequence().items[place]);
  return machine.List(std::move(items), value.sequence().kind);
}

}  // namespace moonring::data::jinja
