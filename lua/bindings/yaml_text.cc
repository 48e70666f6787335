#include "lua/bindings/yaml_text.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status/status_macros.h"

namespace moonring::lua {
namespace {

using nlohmann::json;

// Returns the value of an integer in a base, with underscores between its digits; nullopt if there
// is another character or no digit.
std::optional<double> WholeOf(absl::string_view digits, int base) {
  double value = 0;
  bool any = false;
  for (const char c : digits) {
    if (c == '_') continue;
    if (!absl::ascii_isxdigit(c)) return std::nullopt;
    const int digit = absl::ascii_isdigit(c) ? c - '0' : absl::ascii_tolower(c) - 'a' + 10;
    if (digit >= base) return std::nullopt;
    value = value * base + digit;
    any = true;
  }
  return any ? std::optional(value) : std::nullopt;
}

// Returns the value of a base-60 number: 1:30 is 90.
std::optional<double> SixtiesOf(absl::string_view text) {
  if (text.empty() || text[0] < '1' || text[0] > '9') return std::nullopt;
  double value = 0;
  bool first = true;
  for (const absl::string_view group : absl::StrSplit(text, ':')) {
    const std::optional<double> each = WholeOf(group, 10);
    if (!each.has_value() || (!first && (group.size() > 2 || *each > 59))) return std::nullopt;
    value = value * 60 + *each;
    first = false;
  }
  return value;
}

// Returns the value of a number without its sign, read as PyYAML and OmegaConf do.
std::optional<double> MagnitudeOf(absl::string_view text) {
  if (text == ".inf" || text == ".Inf" || text == ".INF")
    return std::numeric_limits<double>::infinity();
  if (text.empty() || (!absl::ascii_isdigit(text[0]) && text[0] != '.')) return std::nullopt;
  if (absl::StartsWith(text, "0x")) return WholeOf(text.substr(2), 16);
  if (absl::StartsWith(text, "0b")) return WholeOf(text.substr(2), 2);
  if (text.size() > 1 && text[0] == '0') {
    if (const std::optional<double> octal = WholeOf(text.substr(1), 8)) return octal;
  }
  if (absl::StrContains(text, ':')) return SixtiesOf(text);
  const std::string digits = absl::StrReplaceAll(text, {{"_", ""}});
  double number = 0;
  if (digits.find_first_not_of("0123456789.eE+-") == std::string::npos &&
      absl::SimpleAtod(digits, &number))
    return number;
  return std::nullopt;
}

std::optional<double> NumberOf(absl::string_view text) {
  if (text == ".nan" || text == ".NaN" || text == ".NAN")
    return std::numeric_limits<double>::quiet_NaN();
  const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  const std::optional<double> magnitude = MagnitudeOf(has_sign ? text.substr(1) : text);
  return has_sign && text[0] == '-' && magnitude.has_value() ? -*magnitude : magnitude;
}

json ScalarOf(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  const bool plain = node.Tag() != "!";
  if (plain && (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL"))
    return nullptr;
  if (plain && (text == "true" || text == "True" || text == "TRUE")) return true;
  if (plain && (text == "false" || text == "False" || text == "FALSE")) return false;
  if (!plain) return text;
  if (const std::optional<double> number = NumberOf(text)) return *number;
  return text;
}

class Reader {
 public:
  Reader(size_t text_bytes, absl::string_view where)
      : most_values_(kLeastMost + text_bytes * kEachByte), where_(where) {}

  absl::Status Read(const YAML::Node& node, int depth, json& value) {
    if (depth > kMostYamlNesting)
      return Wrong(node,
                   absl::StrCat("more than ", kMostYamlNesting, " values within one another"));
    if (++values_ > most_values_)
      return Wrong(node,
                   absl::StrCat("more than ", most_values_, " values, aliases counted each time"));
    if (node.IsSequence()) {
      value = json::array();
      for (const YAML::Node& item : node)
        RETURN_IF_ERROR(Read(item, depth + 1, value.emplace_back()));
    } else if (node.IsMap()) {
      value = json::object();
      for (const auto& item : node)
        RETURN_IF_ERROR(Read(item.second, depth + 1, value[item.first.Scalar()]));
    } else if (node.IsScalar()) {
      value = ScalarOf(node);
    } else {
      value = nullptr;
    }
    return absl::OkStatus();
  }

  absl::Status ReadLines(const YAML::Node& map, YamlDocument& document) const {
    for (const auto& item : map) {
      const auto [first, is_new] =
          document.lines.emplace(item.first.Scalar(), item.first.Mark().line + 1);
      if (is_new) {
        if (item.second.IsScalar()) document.texts[item.first.Scalar()] = item.second.Scalar();
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat(where_, ":", item.first.Mark().line + 1, ": key '", first->first,
                       "' a second time, first on line ", first->second));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Wrong(const YAML::Node& node, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ":", node.Mark().line + 1, ":", node.Mark().column + 1, ": ", what));
  }

  // A text may contain kLeastMost values, plus kEachByte for each byte of text. Without aliases
  // each value takes at least one byte.
  static constexpr size_t kLeastMost = 10'000, kEachByte = 4;

  const size_t most_values_;
  const absl::string_view where_;
  size_t values_ = 0;
};

}  // namespace

absl::StatusOr<YamlDocument> ParseYaml(const std::string& text, absl::string_view where) {
  YamlDocument document;
  Reader reader(text.size(), where);
  try {
    const YAML::Node root = YAML::Load(text);
    RETURN_IF_ERROR(reader.Read(root, 0, document.value));
    if (root.IsMap()) RETURN_IF_ERROR(reader.ReadLines(root, document));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(where, ":", error.mark.line + 1, ":",
                                                   error.mark.column + 1,
                                                   ": not valid YAML: ", error.msg));
  }
  return document;
}

}  // namespace moonring::lua
