#include "data/text/jinja/text_format.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/text/jinja/operators.h"
#include "data/text/jinja/python_text.h"
#include "data/text/jinja/value_text.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data::jinja {
namespace {

constexpr int kMostPrecision = 1000;

// The parsed format of one value.
struct Style {
  char32_t fill = U' ';
  char align = 0;  // < > ^ =; 0: the default of the type
  char sign = '-';
  bool alternate = false, commas = false;
  int64_t width = 0;
  int precision = -1;
  char type = 0;
};

int64_t ReadNumber(absl::string_view& text) {
  int64_t number = 0;
  while (!text.empty() && absl::ascii_isdigit(text[0])) {
    number = number * 10 + (text[0] - '0');
    if (number > INT32_MAX) Fail("Too many decimal digits in format string");
    text.remove_prefix(1);
  }
  return number;
}

bool Take(absl::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

std::string WithCommas(std::string digits) {
  for (int64_t at =
           static_cast<int64_t>(std::min(digits.find_first_not_of("0123456789"), digits.size())) -
           3;
       at > 0; at -= 3)
    digits.insert(at, ",");
  return digits;
}

// The digits of a number, without its sign.
std::string Digits(const Value& value, const Style& style) {
  const auto integer = [&](const char* prefix, int base) {
    uint64_t left = value.integer() < 0 ? 0 - static_cast<uint64_t>(value.integer())
                                        : static_cast<uint64_t>(value.integer());
    std::string digits;
    do digits.insert(digits.begin(), "0123456789abcdef"[left % base]);
    while ((left /= base) > 0);
    return (style.alternate ? prefix : "") + digits;
  };
  const double size = std::fabs(value.number());
  const int precision = std::min(style.precision < 0 ? 6 : style.precision, kMostPrecision);
  switch (style.type) {
    case 'x':
      return integer("0x", 16);
    case 'X':
      return absl::AsciiStrToUpper(integer("0x", 16));
    case 'o':
      return integer("0o", 8);
    case 'b':
      return integer("0b", 2);
    case 'd':
      return integer("", 10);
    case 'f':
    case 'F':
      return absl::StrFormat("%.*f", precision, size);
    case 'e':
    case 'E':
      return style.type == 'e' ? absl::StrFormat("%.*e", precision, size)
                               : absl::StrFormat("%.*E", precision, size);
    case 'g':
    case 'G':
      return style.type == 'g' ? absl::StrFormat("%.*g", precision, size)
                               : absl::StrFormat("%.*G", precision, size);
    case '%':
      return absl::StrFormat("%.*f%%", precision, 100 * size);
    default:
      Unsupported("the format type '", std::string(1, style.type), "'");
  }
}

std::string Laid(Machine& machine, const std::string& sign, const std::string& body,
                 const Style& style, char own_align) {
  const char align = style.align != 0 ? style.align : own_align;
  if (align == '=')
    return sign + Pad(machine.budget, body, style.width - static_cast<int64_t>(sign.size()),
                      style.fill, Side::kLeft);
  const std::string text = sign + body;
  if (align == '^') {
    const int64_t left = (style.width - LengthOf(text)) / 2;
    const std::string begun =
        left > 0 ? Pad(machine.budget, text, LengthOf(text) + left, style.fill, Side::kLeft) : text;
    return Pad(machine.budget, begun, style.width, style.fill, Side::kRight);
  }
  return Pad(machine.budget, text, style.width, style.fill,
             align == '<' ? Side::kRight : Side::kLeft);
}

std::string NumberText(Machine& machine, const Value& value, Style style) {
  const bool integral = style.type == 'd' || style.type == 'x' || style.type == 'X' ||
                        style.type == 'o' || style.type == 'b';
  if (integral && !value.is_integer())
    Fail("Unknown format code '", std::string(1, style.type), "' for object of type '",
         value.TypeName(), "'");
  const bool negative = std::signbit(value.number());
  std::string digits;
  if (style.type == 0 && !value.is_integer() && style.precision < 0) {
    digits = FloatText(std::fabs(value.number()));
  } else {
    if (style.type == 0 && !value.is_integer())
      Unsupported("a precision without a type in a format");
    if (style.type == 0) style.type = 'd';
    digits = Digits(value, style);
  }
  if (style.commas) digits = WithCommas(std::move(digits));
  const std::string sign = negative ? "-" : style.sign == '-' ? "" : std::string(1, style.sign);
  return Laid(machine, sign, digits, style, '>');
}

std::string PlainText(Machine& machine, std::string text, const Style& style) {
  machine.budget.Scan(static_cast<int64_t>(text.size()));
  if (style.precision >= 0) text = Part(text, {std::nullopt, style.precision});
  return Laid(machine, "", text, style, '<');
}

// format(value, specification)
std::string Formatted(Machine& machine, const Value& value, absl::string_view specification) {
  if (specification.empty()) return TextOf(machine.budget, value);
  Style style;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t after = 0;
  const char32_t first = NextCodePoint(specification, after);
  if (after < specification.size() && is_align(specification[after])) {
    style.fill = first;
    style.align = specification[after];
    specification.remove_prefix(after + 1);
  } else if (is_align(specification[0])) {
    style.align = specification[0];
    specification.remove_prefix(1);
  }
  for (const char sign : {'+', '-', ' '}) {
    if (Take(specification, sign)) style.sign = sign;
  }
  style.alternate = Take(specification, '#');
  if (Take(specification, '0') && style.align == 0)
    style.fill = U'0', style.align = value.is_number() ? '=' : '<';
  style.width = ReadNumber(specification);
  style.commas = Take(specification, ',');
  if (Take(specification, '.')) style.precision = static_cast<int>(ReadNumber(specification));
  if (!specification.empty()) {
    style.type = specification[0];
    specification.remove_prefix(1);
  }
  if (!specification.empty()) Fail("Invalid format specifier");
  if (value.is_number() && !(value.is(Value::Kind::kBool) && style.type == 0))
    return NumberText(machine, value, style);
  if (!value.is_text() && !value.is(Value::Kind::kBool))
    Fail("unsupported format string passed to ", value.TypeName(), ".__format__");
  if (style.type != 0 && style.type != 's')
    Fail("Unknown format code '", std::string(1, style.type), "' for object of type '",
         value.TypeName(), "'");
  return PlainText(machine, TextOf(machine.budget, value), style);
}

// Numbering of a format's fields: automatic (`{}`) or explicit (`{0}`); mixing both is an error.
struct Numbering {
  size_t counted = 0;
  bool by_hand = false;
};

// The value of a field such as `0`, `name.first` or `rows[2]`; a field without a name is numbered
// automatically.
Value FieldOf(Machine& machine, absl::string_view field, const Arguments& arguments,
              Numbering& numbering) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const absl::string_view name = field.substr(0, end);
  field.remove_prefix(end);
  Value value;
  size_t index = 0;
  if (name.empty() || absl::SimpleAtoi(name, &index)) {
    if (name.empty() ? numbering.by_hand : numbering.counted > 0) {
      Fail("cannot switch between automatic field numbering and manual field specification");
    }
    if (name.empty()) {
      index = numbering.counted++;
    } else {
      numbering.by_hand = true;
    }
    if (index >= arguments.positional.size())
      Fail("Replacement index ", index, " out of range for positional args tuple");
    value = arguments.positional[index];
  } else {
    machine.budget.LookAt(static_cast<int64_t>(arguments.named.size()));
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& each) { return each.first == name; });
    if (found == arguments.named.end()) Fail("format(): no argument ", Quoted(name));
    value = found->second;
  }
  while (!field.empty()) {
    const bool item = field[0] == '[';
    field.remove_prefix(1);
    const size_t stop = std::min(item ? field.find(']') : field.find_first_of(".["), field.size());
    const absl::string_view key = field.substr(0, stop);
    field.remove_prefix(std::min(stop + (item ? 1 : 0), field.size()));
    int64_t number = 0;
    value = !item ? Attribute(machine, value, key)
                  : Item(machine, value,
                         absl::SimpleAtoi(key, &number) ? Value::Int(number)
                                                        : Value::Text(std::string(key)));
  }
  return value;
}

}  // namespace

std::string PercentFormat(Machine& machine, const std::string& format, const Value& given) {
  const bool several = given.is(Sequence::Kind::kTuple), named = given.is(Value::Kind::kDict);
  size_t used = 0;
  const auto next = [&]() -> Value {
    if (!several && used == 0) return ++used, given;
    if (!several || used >= given.sequence().items.size())
      Fail("not enough arguments for format string");
    return given.sequence().items[used++];
  };
  std::string text;
  const auto add = [&](absl::string_view piece) {
    machine.budget.Make(static_cast<int64_t>(piece.size()));
    absl::StrAppend(&text, piece);
  };
  absl::string_view rest = format;
  while (!rest.empty()) {
    machine.budget.Step();
    const size_t at = std::min(rest.find('%'), rest.size());
    add(rest.substr(0, at));
    rest.remove_prefix(at);
    if (rest.empty()) break;
    rest.remove_prefix(1);
    Style style;
    std::optional<Value> value;
    if (named && Take(rest, '(')) {
      const size_t end = rest.find(')');
      if (end == absl::string_view::npos) Fail("incomplete format key");
      const Value* found = given.dict().Find(rest.substr(0, end));
      if (found == nullptr) Fail("format key ", Quoted(rest.substr(0, end)), " is not there");
      value = *found;
      rest.remove_prefix(end + 1);
    }
    for (bool flags = true; flags;) {
      if (Take(rest, '-')) style.align = '<';
      else if (Take(rest, '+')) style.sign = '+';
      else if (Take(rest, ' ')) style.sign = ' ';
      else if (Take(rest, '#')) style.alternate = true;
      else if (Take(rest, '0')) style.fill = U'0';
      else flags = false;
    }
    style.width = ReadNumber(rest);
    if (Take(rest, '.')) style.precision = static_cast<int>(ReadNumber(rest));
    if (rest.empty()) Fail("incomplete format");
    style.type = rest[0];
    rest.remove_prefix(1);
    if (style.type == '%') {
      text += '%';
      continue;
    }
    if (!value.has_value()) value = next();
    if (style.type == 's' || style.type == 'r') {
      style.fill = U' ';
      if (style.align == 0) style.align = '>';
      add(PlainText(
          machine,
          style.type == 's' ? TextOf(machine.budget, *value) : ReprOf(machine.budget, *value),
          style));
      continue;
    }
    if (!value->is_number())
      Fail("%", std::string(1, style.type), " format: a real number is required, not ",
           value->TypeName());
    if (style.fill == U'0') style.align = style.align == 0 ? '=' : style.align;
    if (style.align == '<') style.fill = U' ';
    if (style.type == 'i' || style.type == 'u') style.type = 'd';
    if (style.type == 'd' && !value->is_integer())
      value = Value::Int(static_cast<int64_t>(std::trunc(value->number())));
    add(NumberText(machine, *value, style));
  }
  if (several ? used < given.sequence().items.size()
              : used == 0 && !named && !given.is(Value::Kind::kSequence) && !given.is_undefined())
    Fail("not all arguments converted during string formatting");
  return text;
}

std::string BraceFormat(Machine& machine, const std::string& format, const Arguments& arguments) {
  std::string text;
  absl::string_view rest = format;
  Numbering numbering;
  while (!rest.empty()) {
    const char c = rest[0];
    rest.remove_prefix(1);
    if (c != '{' && c != '}') {
      text += c;
      continue;
    }
    if (Take(rest, c)) {
      text += c;
      continue;
    }
    if (c == '}') Fail("Single '}' encountered in format string");
    const size_t end = rest.find('}');
    if (end == absl::string_view::npos) Fail("expected '}' before end of string");
    absl::string_view field = rest.substr(0, end), specification;
    rest.remove_prefix(end + 1);
    if (absl::StrContains(field, '{')) Unsupported("fields within the fields of format()");
    if (const size_t colon = field.find(':'); colon != absl::string_view::npos) {
      specification = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = 0;
    if (const size_t mark = field.find('!'); mark != absl::string_view::npos) {
      conversion = mark + 1 < field.size() ? field[mark + 1] : 0;
      if (conversion != 'r' && conversion != 's')
        Unsupported("the conversion '", field.substr(mark), "' in format()");
      field = field.substr(0, mark);
    }
    Value value = FieldOf(machine, field, arguments, numbering);
    if (conversion == 'r') value = machine.Text(ReprOf(machine.budget, value));
    if (conversion == 's') value = machine.Text(TextOf(machine.budget, value));
    const std::string piece = Formatted(machine, value, specification);
    machine.budget.Make(static_cast<int64_t>(piece.size()));
    absl::StrAppend(&text, piece);
    machine.budget.Step();
  }
  return text;
}

}  // namespace moonring::data::jinja
