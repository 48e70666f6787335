#include "model/files/json_text.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status/status_macros.h"
#include "base/text/json_nesting.h"
#include "base/text/ordered_json.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using nlohmann::json;

constexpr absl::string_view kPythonNumbers[] = {"Infinity", "-Infinity", "NaN"};
constexpr char kSpelt[] = "__float__";

// nlohmann's message is "[json.exception.parse_error.101] parse error at line 3, column 0: syntax
// error while ...". Its column is wrong after a number at the end of a line, so line and column are
// recomputed from the number of bytes read.
std::string Explanation(const json::parse_error& error, absl::string_view text) {
  const absl::string_view before =
      text.substr(0, error.byte == 0 ? 0 : std::min(text.size(), error.byte - 1));
  const size_t lines = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t column = lines == 0 ? before.size() + 1 : before.size() - before.rfind('\n');
  absl::string_view what = error.what();
  if (const size_t colon = what.find(": "); colon != absl::string_view::npos)
    what.remove_prefix(colon + 2);
  return absl::StrCat("line ", lines + 1, ", column ", column, ": ", Shown(what, 200));
}

// Finds the first duplicate key of an object. (A callback of json::parse also sees keys, but with a
// callback the parser visits all members of an object at the end of each nested object.)
class DoubledKey final : public nlohmann::json_sax<json> {
 public:
  const std::optional<std::string>& key() const { return key_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  bool start_object(size_t) override { return open_.emplace_back(), true; }
  bool end_object() override { return open_.pop_back(), true; }
  bool key(std::string& key) override {
    if (open_.back().insert(key).second) return true;
    key_ = std::move(key);
    return false;
  }

 private:
  std::vector<std::set<std::string>> open_;  // keys seen in each enclosing object, outermost first
  std::optional<std::string> key_;
};

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view where) {
  RETURN_IF_ERROR(base::CheckJsonNesting(text), where);
  try {
    json value = json::parse(text.begin(), text.end());
    DoubledKey doubled;
    json::sax_parse(text.begin(), text.end(), &doubled);
    if (doubled.key().has_value())
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": '", Shown(*doubled.key()), "' is there twice"));
    return value;
  } catch (const json::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": ", text.empty() ? "the file is empty" : Explanation(error, text)));
  } catch (const json::exception& error) {  // a number outside the range of double
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", Shown(error.what(), 200)));
  }
}

absl::StatusOr<json> ParseJsonObject(absl::string_view text, absl::string_view where) {
  ASSIGN_OR_RETURN(json value, ParseJson(text, where));
  if (!value.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected an object {...}, got ", ShownJson(value)));
  return value;
}

std::string WithSpeltNumbers(absl::string_view text) {
  std::string spelt;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto number = std::find_if(
        std::begin(kPythonNumbers), std::end(kPythonNumbers),
        [&](absl::string_view each) { return absl::StartsWith(text.substr(i), each); });
    if (!quoted && number != std::end(kPythonNumbers)) {
      absl::StrAppend(&spelt, "{\"", kSpelt, "\": \"", *number, "\"}");
      i += number->size() - 1;
      continue;
    }
    spelt += text[i];
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\' && i + 1 < text.size()) spelt += text[++i];
  }
  return spelt;
}

namespace {

// Replaces each {"__float__": ..} by a marked string that no other value equals.
void Mark(base::OrderedJson& value) {
  if (value.is_object() && value.size() == 1 && value.contains(kSpelt) &&
      value[kSpelt].is_string()) {
    const std::string number = value[kSpelt];
    if (absl::c_linear_search(kPythonNumbers, absl::string_view(number)))
      value = absl::StrCat("\x01", number);
    return;
  }
  if (!value.is_structured()) return;
  for (base::OrderedJson& each : value) Mark(each);
}

}  // namespace

std::string DumpForPython(base::OrderedJson value) {
  Mark(value);
  std::string text = value.dump(2);
  for (const absl::string_view number : kPythonNumbers)
    text = absl::StrReplaceAll(text, {{absl::StrCat("\"\\u0001", number, "\""), number}});
  return text;
}

bool JsonFields::Has(absl::string_view key) const { return object_.contains(std::string(key)); }

const json* JsonFields::Find(absl::string_view key) const {
  const auto found = object_.find(std::string(key));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

absl::Status JsonFields::Missing(absl::string_view key) const {
  return absl::InvalidArgumentError(absl::StrCat(where_, ": ", key, ": missing"));
}

absl::Status JsonFields::Wrong(absl::string_view key, absl::string_view wanted) const {
  const json* value = Find(key);
  return absl::InvalidArgumentError(absl::StrCat(where_, ": ", key, ": expected ", wanted, ", got ",
                                                 value == nullptr ? "nothing" : ShownJson(*value)));
}

absl::StatusOr<std::optional<int64_t>> JsonFields::OptionalInt(absl::string_view key) const {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool too_large =
      value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value->is_number_integer() || too_large) return Wrong(key, "a whole number");
  return value->get<int64_t>();
}

absl::StatusOr<int64_t> JsonFields::Int(absl::string_view key) const {
  ASSIGN_OR_RETURN(const std::optional<int64_t> value, OptionalInt(key));
  if (!value.has_value()) return Missing(key);
  return *value;
}

absl::StatusOr<double> JsonFields::Number(absl::string_view key, double otherwise) const {
  const json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) return Wrong(key, "a number");
  return value->get<double>();
}

absl::StatusOr<bool> JsonFields::Bool(absl::string_view key, bool otherwise) const {
  const json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return Wrong(key, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonFields::String(absl::string_view key,
                                               absl::string_view otherwise) const {
  const json* value = Find(key);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string()) return Wrong(key, "a string");
  return value->get<std::string>();
}

std::string ShownJson(const json& value) {
  return Shown(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

std::string Shown(absl::string_view text, size_t limit) {
  std::string shown;
  for (const char byte : text.substr(0, limit)) {
    if (absl::ascii_isprint(static_cast<unsigned char>(byte))) {
      shown += byte;
    } else {
      absl::StrAppend(&shown, "\\x", absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
    }
  }
  return text.size() > limit ? shown + "..." : shown;
}

}  // namespace moonring::model
