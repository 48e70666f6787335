#include "data/text/json/python_json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/json_nesting.h"
#include "data/text/json/special_numbers.h"

namespace moonring::data {
namespace {

bool IsSpecialNumber(const OrderedJson& value) {
  return value.is_number_float() && !std::isfinite(value.get<double>());
}

// The text of a non-finite number in json.dumps or repr.
std::string SpecialText(double number, const char* nan, const char* infinity) {
  return std::isnan(number) ? nan : absl::StrCat(number < 0 ? "-" : "", infinity);
}

// repr(float): the shortest digits that parse to the same number; exponent notation below 1e-4 and
// from 1e16 on.
std::string FloatText(double number) {
  char buffer[32];
  const auto written =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific);
  const std::string text(buffer, written.ptr);  // -d.ddde[+-]dd
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  // `text` is already Python's: its exponent has a sign and at least two digits
  if (exponent < -4 || exponent >= 16) return text;
  const std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const int size = static_cast<int>(digits.size());
  if (exponent < 0) return absl::StrCat(sign, "0.", std::string(-exponent - 1, '0'), digits);
  if (size <= exponent + 1)
    return absl::StrCat(sign, digits, std::string(exponent + 1 - size, '0'), ".0");
  return absl::StrCat(sign, digits.substr(0, exponent + 1), ".", digits.substr(exponent + 1));
}

// A scalar as JSON; strings without escapes for non-ASCII characters.
std::string ScalarJson(const OrderedJson& value) {
  if (IsSpecialNumber(value)) return SpecialText(value.get<double>(), "NaN", "Infinity");
  return value.is_number_float()
             ? FloatText(value.get<double>())
             : value.dump(-1, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace);
}

void Append(const OrderedJson& value, std::optional<int> indent, int depth, std::string& text) {
  if (!value.is_structured() || value.empty()) {
    text += value.is_structured() ? (value.is_array() ? "[]" : "{}") : ScalarJson(value);
    return;
  }
  const auto line = [&](int at) {
    return indent.has_value() ? absl::StrCat("\n", std::string(*indent * at, ' ')) : std::string();
  };
  text += value.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) text += indent.has_value() ? "," : ", ";
    first = false;
    text += line(depth + 1);
    if (value.is_object())
      absl::StrAppend(
          &text,
          OrderedJson(item.key()).dump(-1, ' ', false, OrderedJson::error_handler_t::replace),
          ": ");
    Append(item.value(), indent, depth + 1, text);
  }
  text += line(depth);
  text += value.is_array() ? ']' : '}';
}

// repr(str)
std::string Quoted(const std::string& text) {
  const char quote =
      text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string quoted(1, quote);
  for (const char c : text) {
    if (c == '\\' || c == quote) {
      quoted += {'\\', c};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      quoted += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      absl::StrAppend(&quoted, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    } else {
      quoted += c;
    }
  }
  return quoted + quote;
}

std::string Repr(const OrderedJson& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return Quoted(value.get_ref<const std::string&>());
  if (IsSpecialNumber(value)) return SpecialText(value.get<double>(), "nan", "inf");
  if (!value.is_structured()) return ScalarJson(value);
  std::string text(1, value.is_array() ? '[' : '{');
  for (const auto& item : value.items()) {
    if (text.size() > 1) text += ", ";
    if (value.is_object()) absl::StrAppend(&text, Quoted(item.key()), ": ");
    text += Repr(item.value());
  }
  return text + (value.is_array() ? ']' : '}');
}

}  // namespace

absl::StatusOr<OrderedJson> ParseOrderedJson(absl::string_view text) {
  RETURN_IF_ERROR(base::CheckJsonNesting(text), "not valid JSON");
  try {
    return ParseWithSpecialNumbers(text);
  } catch (const OrderedJson::exception& error) {
    // nlohmann's message is "[json.exception.parse_error.101] parse error at line 1, column 2:
    // what".
    absl::string_view what = error.what();
    if (const size_t place = what.find("] "); place != absl::string_view::npos)
      what.remove_prefix(place + 2);
    constexpr size_t kLongest = 200;  // the message quotes the input
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON: ", what.substr(0, kLongest)));
  }
}

std::string PythonJson(const OrderedJson& value, std::optional<int> indent) {
  std::string text;
  Append(value, indent, 0, text);
  return text;
}

std::string PythonText(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : Repr(value);
}

bool PythonTruth(const OrderedJson& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  return value.is_string() ? !value.get_ref<const std::string&>().empty() : !value.empty();
}

bool IsNan(const OrderedJson& value) {
  return value.is_number_float() && std::isnan(value.get<double>());
}

const OrderedJson& FieldOrNull(const OrderedJson& object, const char* key) {
  static const OrderedJson kNull;
  const auto found = object.find(key);  // end() if it is not an object
  return found == object.end() ? kNull : *found;
}

}  // namespace moonring::data
