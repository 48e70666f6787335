// Parses YAML text (configurations, token lists) into values. Independent of Lua, so that it can be
// fuzzed.
//
// A plain scalar becomes null, a boolean or a number if it looks like one; a quoted scalar is a
// string. Numbers are read as PyYAML does, with OmegaConf's floats, as LLaMA-Factory does: 32_768,
// 0x10, 0b11, 017 (octal), 1:30 (base 60), 2e-5, .5, .inf, .nan. Only true and false are booleans:
// yes, no, on and off stay strings, which boolean keys accept. Keys are strings. An alias becomes a
// copy of its anchor's value. Only the first of several documents is read.
//
// Errors are INVALID_ARGUMENT, `where:LINE:COLUMN: message`, for malformed text, duplicate
// top-level keys, nesting deeper than kMostYamlNesting, and more values (aliases expanded) than is
// plausible for the length of the text: nine lines of nested aliases can expand to billions of
// values, and an alias can contain itself.
#ifndef MOONRING_LUA_BINDINGS_YAML_TEXT_H_
#define MOONRING_LUA_BINDINGS_YAML_TEXT_H_

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

inline constexpr int kMostYamlNesting = 100;

struct YamlDocument {
  nlohmann::json value;
  std::map<std::string, int> lines;          // line of each top-level key, from 1
  std::map<std::string, std::string> texts;  // source text of top-level scalar values
};

absl::StatusOr<YamlDocument> ParseYaml(const std::string& text, absl::string_view where);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_YAML_TEXT_H_
