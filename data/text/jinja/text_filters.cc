#include "data/text/jinja/text_filters.h"

#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/text/jinja/operators.h"
#include "data/text/jinja/python_text.h"
#include "data/text/jinja/text_format.h"
#include "data/text/jinja/value_text.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data::jinja {
namespace {

// Returns the value's text, and charges the budget for scanning it.
std::string Read(Machine& machine, const Value& value) {
  std::string text = TextOf(machine.budget, value);
  machine.budget.Scan(static_cast<int64_t>(text.size()));
  return text;
}

int64_t IntegerOr(const std::optional<Value>& value, int64_t absent, absl::string_view filter) {
  if (!value.has_value()) return absent;
  if (!value->is_integer())
    Fail(filter, ": '", value->TypeName(), "' object cannot be interpreted as an integer");
  return value->integer();
}

template <std::string (*function)(const std::string&)>
Value Changed(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("filter", {});
  return machine.TextLike(value, function(Read(machine, value)));
}

// Capitalizes the first letter of each word and lowercases the rest; words are separated by space,
// -, (, {, [ and <.
std::string TitleWords(const std::string& text) {
  std::string title, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    size_t first = 0;
    NextCodePoint(word, first);
    title += Upper(word.substr(0, first)) + Lower(word.substr(first));
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    if (IsSpace(c) || c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<') {
      end_word();
      AppendCodePoint(c, title);
    } else {
      AppendCodePoint(c, word);
    }
  }
  end_word();
  return title;
}

std::string Itself(const std::string& text) { return text; }

Value TitleFilter(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("title", {});
  return machine.Text(TitleWords(Read(machine, value)));
}

Value Safe(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("safe", {});
  std::string text = Read(machine, value);
  machine.budget.Make(static_cast<int64_t>(text.size()));
  return Value::Markup(std::move(text));
}

Value Escape(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("escape", {});
  return value.is_markup() ? value : Value::Markup(Escaped(machine.budget, Read(machine, value)));
}

Value Trim(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("trim", {"chars"});
  std::optional<std::string> characters;
  if (bound[0].has_value() && !bound[0]->is_none()) characters = TextOf(machine.budget, *bound[0]);
  const std::string text = Read(machine, value);
  return machine.TextLike(value, std::string(Strip(text, characters)));
}

Value ReplaceText(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("replace", {"old", "new", "count"});
  if (!bound[0].has_value() || !bound[1].has_value()) Fail("replace requires two texts");
  const bool all = !bound[2].has_value() || bound[2]->is_none();
  return machine.Text(Replace(machine.budget, TextOf(machine.budget, value),
                              TextOf(machine.budget, *bound[0]), TextOf(machine.budget, *bound[1]),
                              all ? -1 : IntegerOr(bound[2], -1, "replace")));
}

Value Indent(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("indent", {"width", "first", "blank"});
  CheckDefined(value);
  if (!value.is_text()) Fail("indent requires a text, got a ", value.TypeName());
  const bool text_given = bound[0].has_value() && bound[0]->is_text();
  const std::string indention =
      text_given ? bound[0]->text()
                 : Pad(machine.budget, "", IntegerOr(bound[0], 4, "indent"), U' ', Side::kRight);
  const std::vector<std::string> lines =
      SplitLines(machine.budget, Read(machine, value) + "\n", false);
  machine.budget.Make(static_cast<int64_t>(lines.size()),
                      static_cast<int64_t>(indention.size()) + 1);
  std::string indented = TruthOf(bound[1]) ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0)
      indented += "\n" + (!lines[i].empty() || TruthOf(bound[2]) ? indention : std::string());
    indented += lines[i];
  }
  return machine.TextLike(value, std::move(indented));
}

Value Center(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("center", {"width"});
  return machine.TextLike(value, Pad(machine.budget, Read(machine, value),
                                     IntegerOr(bound[0], 80, "center"), U' ', Side::kBoth));
}

Value Truncate(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("truncate", {"length", "killwords", "end", "leeway"});
  const std::string end = bound[2].has_value() ? TextOf(machine.budget, *bound[2]) : "...";
  const int64_t length = IntegerOr(bound[0], 255, "truncate"),
                leeway = bound[3].has_value() && !bound[3]->is_none()
                             ? IntegerOr(bound[3], 5, "truncate")
                             : 5;
  if (length < LengthOf(end))
    Fail("truncate: expected length >= ", LengthOf(end), ", got ", length);
  if (Length(machine.budget, value) <= length + leeway) return value;
  if (!value.is_text()) Fail("truncate requires a text, got a ", value.TypeName());
  const std::string text = Read(machine, value);
  const std::string kept = Part(text, {0, length - LengthOf(end)});
  return machine.Text((TruthOf(bound[1]) ? kept : Split(machine.budget, kept, " ", 1, true)[0]) +
                      end);
}

Value WordCount(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("wordcount", {});
  const std::string text = Read(machine, value);
  int64_t words = 0;
  bool within = false;
  for (size_t at = 0; at < text.size();) {
    const bool word = IsWordCharacter(NextCodePoint(text, at));
    words += word && !within;
    within = word;
  }
  return Value::Int(words);
}

// format: '%s' | format(x), with positional or named arguments.
Value Format(Machine& machine, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    Fail("can't handle positional and keyword arguments at the same time");
  Dict named;
  for (const auto& [name, each] : arguments.named) named.Set(name, each);
  const Value given = arguments.named.empty()
                          ? machine.List(arguments.positional, Sequence::Kind::kTuple)
                          : machine.Of(std::move(named));
  return machine.Text(PercentFormat(machine, TextOf(machine.budget, value), given));
}

Value ToJson(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound =
      arguments.Bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ensure_ascii = TruthOf(bound[0]), .sort_keys = TruthOf(bound[3])};
  if (bound[1].has_value() && !bound[1]->is_none()) {
    style.indent = bound[1]->is_text() ? bound[1]->text()
                                       : Pad(machine.budget, "", IntegerOr(bound[1], 0, "tojson"),
                                             U' ', Side::kRight);
  }
  if (bound[2].has_value() && !bound[2]->is_none()) {
    const std::vector<Value> separators = Items(machine, *bound[2]);
    if (separators.size() != 2 || !separators[0].is_text() || !separators[1].is_text())
      Fail("tojson: separators: expected two texts");
    style.item_separator = separators[0].text();
    style.separator = separators[1].text();
  }
  return Value::Text(JsonOf(machine.budget, value, style));
}

// Removes the underscores between digits, as int() and float() accept them.
std::optional<std::string> WithoutUnderscores(absl::string_view text) {
  std::string without;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      without += text[i];
    } else if (i == 0 || i + 1 == text.size() || !absl::ascii_isalnum(text[i - 1]) ||
               !absl::ascii_isalnum(text[i + 1])) {
      return std::nullopt;
    }
  }
  return without;
}

std::optional<double> ToFloat(const Value& value) {
  if (value.is_number()) return value.number();
  if (!value.is_text()) return std::nullopt;
  const std::optional<std::string> text = WithoutUnderscores(Strip(value.text()));
  double number = 0;
  if (!text.has_value() || absl::StrContains(*text, 'x') || absl::StrContains(*text, 'X') ||
      !absl::SimpleAtod(*text, &number))
    return std::nullopt;
  return number;
}

std::optional<int64_t> ParseInteger(const std::string& given, int base) {
  const std::optional<std::string> clean = WithoutUnderscores(Strip(given));
  if (!clean.has_value() || clean->empty()) return std::nullopt;
  absl::string_view text = *clean;
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  const char kind = text.size() > 2 && text[0] == '0' ? absl::ascii_tolower(text[1]) : ' ';
  const int own = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
  if (own != 0 && (base == own || base == 0)) {
    text.remove_prefix(2);
    base = own;
  }
  if (base == 0) base = 10;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error == std::errc::result_out_of_range) Unsupported("integers beyond 64 bits");
  if (error != std::errc() || end != text.data() + text.size() || text[0] == '-')
    return std::nullopt;
  return negative ? -number : number;
}

int64_t Truncated(double number) {
  if (std::fabs(number) >= 9.2e18) Unsupported("integers beyond 64 bits");
  return static_cast<int64_t>(number);
}

Value ToInteger(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("int", {"default", "base"});
  const Value absent = bound[0].value_or(Value::Int(0));
  CheckDefined(value);
  if (value.is_integer()) return Value::Int(value.integer());
  if (value.is(Value::Kind::kFloat) && std::isinf(value.number()))
    Fail("cannot convert float infinity to integer");
  if (value.is_text()) {
    machine.budget.Scan(static_cast<int64_t>(value.text().size()));
    if (const auto number =
            ParseInteger(value.text(), static_cast<int>(IntegerOr(bound[1], 10, "int")));
        number.has_value())
      return Value::Int(*number);
  }
  const std::optional<double> number = ToFloat(value);
  return number.has_value() && std::isfinite(*number) ? Value::Int(Truncated(*number)) : absent;
}

Value ToFloatFilter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("float", {"default"});
  CheckDefined(value);
  if (value.is_text()) machine.budget.Scan(static_cast<int64_t>(value.text().size()));
  const std::optional<double> number = ToFloat(value);
  return number.has_value() ? Value::Float(*number) : bound[0].value_or(Value::Float(0));
}

Value Round(Machine&, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("round", {"precision", "method"});
  const int64_t precision = IntegerOr(bound[0], 0, "round");
  const std::string method =
      bound[1].has_value() && bound[1]->is_text() ? bound[1]->text() : "common";
  CheckDefined(value);
  if (!value.is_number()) Fail("type ", value.TypeName(), " doesn't define __round__ method");
  if (precision < -300 || precision > 300) Unsupported("a precision of ", precision);
  const double scale = std::pow(10, static_cast<double>(precision));
  if (method == "ceil") return Value::Float(std::ceil(value.number() * scale) / scale);
  if (method == "floor") return Value::Float(std::floor(value.number() * scale) / scale);
  if (method != "common") Fail("method must be common, ceil or floor");
  if (value.is_integer() && precision >= 0) return Value::Int(value.integer());
  if (precision < 0) Unsupported("round to tens");
  double rounded = value.number();
  if (std::isfinite(rounded)) {
    std::string digits(400 + static_cast<size_t>(precision), ' ');
    std::snprintf(digits.data(), digits.size(), "%.*f", static_cast<int>(precision),
                  rounded);  // exact: rounds half to even on the stored binary value
    rounded = std::strtod(digits.c_str(), nullptr);
  }
  return Value::Float(rounded);
}

Value Absolute(Machine&, const Value& value, const Arguments& arguments) {
  arguments.Bind("abs", {});
  CheckDefined(value);
  if (!value.is_number()) Fail("bad operand type for abs(): '", value.TypeName(), "'");
  if (value.is(Value::Kind::kFloat)) return Value::Float(std::fabs(value.number()));
  return value.integer() < 0 ? Negative(value) : Value::Int(value.integer());
}

Value Default(Machine&, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("default", {"default_value", "boolean"});
  if (value.is_undefined() || (TruthOf(bound[1]) && !value.Truth()))
    return bound[0].value_or(Value::Text(""));
  return value;
}

}  // namespace

const absl::flat_hash_map<absl::string_view, Filter>& TextFilters() {
  static const auto* const filters = new absl::flat_hash_map<absl::string_view, Filter>{
      {"abs", &Absolute},
      {"capitalize", &Changed<&Capitalize>},
      {"center", &Center},
      {"d", &Default},
      {"default", &Default},
      {"e", &Escape},
      {"escape", &Escape},
      {"float", &ToFloatFilter},
      {"format", &Format},
      {"indent", &Indent},
      {"int", &ToInteger},
      {"lower", &Changed<&Lower>},
      {"replace", &ReplaceText},
      {"round", &Round},
      {"safe", &Safe},
      {"string", &Changed<&Itself>},
      {"title", &TitleFilter},
      {"tojson", &ToJson},
      {"trim", &Trim},
      {"truncate", &Truncate},
      {"upper", &Changed<&Upper>},
      {"wordcount", &WordCount},
  };
  return *filters;
}

}  // namespace moonring::data::jinja
