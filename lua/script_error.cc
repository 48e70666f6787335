#include "lua/script_error.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lua/binding/guard.h"

namespace moonring::lua {
namespace {

constexpr int kMostFrames = 12, kMostLevels = 200;  // each stack level costs as many steps as its
                                                    // depth
constexpr size_t kMostFields = 10, kMostLetters = 200;
constexpr int kMostNested = 3;

// Converts the value on top of the stack by its metamethod __tostring; "" if the value has none, or
// if it fails.
std::string ByMetamethod(lua_State* L) {
  if (!luaL_getmetafield(L, -1, "__tostring")) return "";
  lua_pushvalue(L, -2);
  std::string text;
  if (lua_pcall(L, 1, 1, 0) == 0 && lua_tostring(L, -1) != nullptr) text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return text;
}

absl::StatusCode CodeOfName(absl::string_view name) {
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    const auto each = static_cast<absl::StatusCode>(code);
    if (name == absl::StatusCodeToString(each)) return each;
  }
  return absl::StatusCode::kUnknown;
}

// Whether a part of an error's text before ": " is a position: FILE:LINE, or a name without spaces.
bool IsPlace(absl::string_view part) {
  const size_t colon = part.rfind(':');
  const absl::string_view line = colon == absl::string_view::npos ? "" : part.substr(colon + 1);
  return absl::c_none_of(part, absl::ascii_isspace) ||
         (!line.empty() && absl::c_all_of(line, absl::ascii_isdigit));
}

std::string Shown(lua_State* L, int depth);

// Formats the table on top of the stack as "{ 3, reason = "full" }": list items first, then fields
// with names. Metamethods are not called.
std::string ShownFields(lua_State* L, int depth) {
  if (depth == kMostNested || !lua_checkstack(L, 8)) return "{ ... }";
  std::vector<std::string> fields;
  const size_t size = lua_objlen(L, -1);
  for (size_t i = 1; i <= std::min(size, kMostFields); ++i) {
    lua_rawgeti(L, -1, static_cast<int>(i));
    fields.push_back(Shown(L, depth + 1));
    lua_pop(L, 1);
  }
  std::vector<std::string> named;
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
    const bool listed = lua_type(L, -2) == LUA_TNUMBER && lua_tonumber(L, -2) >= 1 &&
                        lua_tonumber(L, -2) <= static_cast<double>(size);
    if (listed || named.size() > kMostFields) continue;
    lua_pushvalue(L, -2);  // lua_tostring would convert the key that lua_next needs
    const char* const key = lua_tostring(L, -1);
    std::string name = key != nullptr ? key : luaL_typename(L, -1);
    lua_pop(L, 1);
    named.push_back(absl::StrCat(name, " = ", Shown(L, depth + 1)));
  }
  std::sort(named.begin(), named.end());
  fields.insert(fields.end(), named.begin(), named.end());
  if (fields.size() > kMostFields || size > kMostFields) {
    fields.resize(std::min(fields.size(), kMostFields));
    fields.push_back("...");
  }
  return fields.empty() ? "{}" : absl::StrCat("{ ", absl::StrJoin(fields, ", "), " }");
}

std::string Shown(lua_State* L, int depth) {
  switch (lua_type(L, -1)) {
    case LUA_TTABLE:
      return ShownFields(L, depth);
    case LUA_TBOOLEAN:
      return lua_toboolean(L, -1) != 0 ? "true" : "false";
    case LUA_TNUMBER:
      return lua_tostring(L, -1);
    case LUA_TSTRING: {
      const std::string text = lua_tostring(L, -1);
      return absl::StrCat("\"", text.substr(0, kMostLetters),
                          text.size() > kMostLetters ? "..." : "", "\"");
    }
    case LUA_TNIL:
      return "nil";
    default:
      return absl::StrCat("a ", luaL_typename(L, -1));
  }
}

}  // namespace

CodedWords ReadCode(absl::string_view text) {
  absl::string_view rest = text;
  // The name of a chunk of text may contain ": ": [string "a: b"]:1.
  if (absl::StartsWith(rest, "[string ")) {
    const size_t end = rest.find("]:");
    if (end != absl::string_view::npos) rest.remove_prefix(end + 2);
  }
  for (size_t end; (end = rest.find(": ")) != absl::string_view::npos;) {
    const absl::string_view part = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    if (const absl::StatusCode code = CodeOfName(part); code != absl::StatusCode::kUnknown)
      return {code, rest};
    if (!IsPlace(part)) break;
  }
  return {absl::StatusCode::kUnknown, text};
}

std::string WordsOfError(lua_State* L) {
  if (const char* text = lua_tostring(L, -1)) return text;
  if (std::string text = ByMetamethod(L); !text.empty()) return text;
  if (lua_istable(L, -1)) {
    lua_pushliteral(L, "message");
    lua_rawget(L, -2);
    const std::string message = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    lua_pop(L, 1);
    if (!message.empty()) return message;
  }
  return absl::StrCat("the script raised ", Shown(L, 0));
}

std::string ScriptFrames(lua_State* L) {
  std::string lines;
  int frames = 0;
  lua_Debug frame;
  for (int level = 1; level < kMostLevels && lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "nSl", &frame);
    if (frame.currentline <= 0 || absl::StartsWith(frame.source, kOwnChunk))
      continue;  // a C function, or one of Moonring's
    if (++frames > kMostFrames) {
      absl::StrAppend(&lines, "\n  ...");
      break;
    }
    absl::StrAppend(&lines, "\n  ", frame.short_src, ":", frame.currentline, ": in ");
    if (std::strcmp(frame.what, "main") == 0) {
      absl::StrAppend(&lines, "main chunk");
    } else if (frame.name != nullptr) {
      absl::StrAppend(&lines, "function '", frame.name, "'");
    } else {
      absl::StrAppend(&lines, "the function of line ", frame.linedefined);
    }
  }
  return lines;
}

bool AddsToMessage(const std::string& frames, const std::string& message, int exit_code) {
  if (frames.empty()) return false;
  const bool is_status =
      CodeOfName(message.substr(0, message.find(": "))) != absl::StatusCode::kUnknown;
  if (exit_code == 2 && is_status) return false;
  const bool several = frames.find('\n', 1) != std::string::npos;
  const std::string only = frames.substr(0, frames.find(": in "));
  return several || !absl::StartsWith(message, absl::StrCat(absl::StripPrefix(only, "\n  "), ":"));
}

}  // namespace moonring::lua
