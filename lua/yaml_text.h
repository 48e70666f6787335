// A YAML text as values: configurations, lists of tokens. Knows no Lua, so that it can be fuzzed.
//
// A plain scalar is a null, a truth value or a number where it looks like one; a quoted one is
// text. Numbers are PyYAML's, with OmegaConf's floats, which LLaMA-Factory reads: 32_768, 0x10,
// 0b11, 017 (octal), 1:30 (base 60), 2e-5, .5, .inf, .nan. Truth is true and false alone: yes, no,
// on and off stay texts, which a key of that type takes. Keys are texts. An alias is a copy of what
// it stands for. Of several documents the first is read.
//
// Fails with INVALID_ARGUMENT, `where:LINE:COLUMN: what is wrong`: malformed text; a key of the
// outermost map that comes twice; more than kMostYamlNesting values within one another; more
// values, aliases counted each time, than a text of that length can be meant to hold (nine lines of
// aliases can stand for billions of values, and one for itself).
#ifndef MOONRING_LUA_YAML_TEXT_H_
#define MOONRING_LUA_YAML_TEXT_H_

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

inline constexpr int kMostYamlNesting = 100;

struct YamlDocument {
  nlohmann::json value;
  std::map<std::string, int> lines;          // of the outermost map's keys, from 1
  std::map<std::string, std::string> texts;  // of its values that are scalars, as they are written
};

absl::StatusOr<YamlDocument> ParseYaml(const std::string& text, absl::string_view where);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_YAML_TEXT_H_
