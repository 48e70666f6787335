#include "lua/yaml_text.h"

#include <cstddef>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/status/status_macros.h"

namespace moonring::lua {
namespace {

using nlohmann::json;

json ScalarOf(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  const bool plain = node.Tag() != "!";
  double number = 0;
  if (plain && (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL"))
    return nullptr;
  if (plain && (text == "true" || text == "True" || text == "TRUE")) return true;
  if (plain && (text == "false" || text == "False" || text == "FALSE")) return false;
  const bool digits =
      !text.empty() && (absl::ascii_isdigit(text[0]) ||
                        (text.size() > 1 && (text[0] == '-' || text[0] == '+' || text[0] == '.')));
  if (plain && digits && absl::SimpleAtod(text, &number)) return number;
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

  absl::Status ReadLines(const YAML::Node& map, std::map<std::string, int>& lines) const {
    for (const auto& item : map) {
      const auto [first, is_new] = lines.emplace(item.first.Scalar(), item.first.Mark().line + 1);
      if (is_new) continue;
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

  // Without aliases a value takes a byte at least.
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
    if (root.IsMap()) RETURN_IF_ERROR(reader.ReadLines(root, document.lines));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(where, ":", error.mark.line + 1, ":",
                                                   error.mark.column + 1,
                                                   ": not valid YAML: ", error.msg));
  }
  return document;
}

}  // namespace moonring::lua
