#include "lua/binding/error_value.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status/torch_status.h"

namespace moonring::lua {
namespace {

const char kMetatable = 0;  // its address is the registry key of the metatable

constexpr size_t kMostFields = 10, kMostLetters = 200;
constexpr int kMostNested = 3;

// Pushes the value of a field, without metamethods.
void PushField(lua_State* L, int index, const char* name) {
  lua_pushvalue(L, index);
  lua_pushstring(L, name);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

std::string TextField(lua_State* L, int index, const char* name) {
  PushField(L, index, name);
  size_t size = 0;
  const char* const text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &size) : nullptr;
  std::string value = text != nullptr ? std::string(text, size) : "";
  lua_pop(L, 1);
  return value;
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

// Converts a value by its metamethod __tostring; "" if the value has none, or if it fails.
std::string ByMetamethod(lua_State* L, int index) {
  if (!luaL_getmetafield(L, index, "__tostring")) return "";
  lua_pushvalue(L, index);
  std::string text;
  if (lua_pcall(L, 1, 1, 0) == 0 && lua_tostring(L, -1) != nullptr) text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return text;
}

// The text of an object that is not one of Moonring's errors.
std::string TextOf(lua_State* L, int index) {
  size_t size = 0;
  if (const char* const text = lua_tolstring(L, index, &size)) return std::string(text, size);
  if (std::string text = ByMetamethod(L, index); !text.empty()) return text;
  if (lua_istable(L, index)) {
    if (std::string message = TextField(L, index, "message"); !message.empty()) return message;
  }
  lua_pushvalue(L, index);
  std::string text = absl::StrCat("the script raised ", Shown(L, 0));
  lua_pop(L, 1);
  return text;
}

// The metamethods
// -------------------------------------------------------------------------------------------------

int PushText(lua_State* L, const std::string& text) {
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

int ToString(lua_State* L) { return PushText(L, ReadError(L, 1).Text()); }

int Concatenate(lua_State* L) {
  return PushText(L, absl::StrCat(ReadError(L, 1).Text(), ReadError(L, 2).Text()));
}

// A method of strings, called on an error: its upvalue, with the error's text in the error's place.
int CallOnText(lua_State* L) {
  if (IsError(L, 1)) {
    ToString(L);
    lua_replace(L, 1);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

// The field `name` that the table lacks: a method of strings, or nil.
int Index(lua_State* L) {
  lua_pushliteral(L, "");
  if (lua_type(L, 2) != LUA_TSTRING || !luaL_getmetafield(L, -1, "__index")) return 0;
  lua_pushvalue(L, 2);
  lua_gettable(L, -2);
  if (!lua_isfunction(L, -1)) return 0;
  lua_pushcclosure(L, &CallOnText, 1);
  return 1;
}

void PushMetatable(lua_State* L) {
  lua_newtable(L);
  for (const auto& [name, function] :
       {std::pair<const char*, lua_CFunction>{"__tostring", &ToString},
        {"__concat", &Concatenate},
        {"__index", &Index}}) {
    lua_pushcfunction(L, function);
    lua_setfield(L, -2, name);
  }
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");  // scripts cannot change it
}

}  // namespace

std::string ErrorValue::Text() const {
  if (code == absl::StatusCode::kUnknown) return message;
  return absl::StrCat(place, place.empty() ? "" : ": ", absl::StatusCodeToString(code), ": ",
                      message);
}

std::string ErrorValue::Shown() const { return place.empty() ? message : Text(); }

ErrorValue ErrorOfStatus(const absl::Status& status) {
  return {.code = status.code(),
          .message = std::string(status.message()),
          .out_of_memory = base::IsOutOfMemory(status)};
}

bool IsError(lua_State* L, int index) {
  if (!lua_istable(L, index) || lua_getmetatable(L, index) == 0) return false;
  lua_pushlightuserdata(L, const_cast<char*>(&kMetatable));
  lua_rawget(L, LUA_REGISTRYINDEX);
  const bool is = lua_rawequal(L, -1, -2) != 0;
  lua_pop(L, 2);
  return is;
}

void PushError(lua_State* L, const ErrorValue& error) {
  luaL_checkstack(L, 4, "an error");
  if (error.code == absl::StatusCode::kUnknown) {
    PushText(L, error.message);
    return;
  }
  lua_createtable(L, 0, 4);
  PushText(L, absl::StatusCodeToString(error.code));
  lua_setfield(L, -2, "code");
  PushText(L, error.message);
  lua_setfield(L, -2, "message");
  PushText(L, error.place);
  lua_setfield(L, -2, "place");
  if (error.out_of_memory) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "out_of_memory");
  }
  lua_pushlightuserdata(L, const_cast<char*>(&kMetatable));
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_setmetatable(L, -2);
}

ErrorValue ReadError(lua_State* L, int index) {
  if (index < 0) index = lua_gettop(L) + 1 + index;
  if (!IsError(L, index)) return {.message = TextOf(L, index)};
  ErrorValue error;
  error.code = CodeOfName(TextField(L, index, "code"));
  error.message = TextField(L, index, "message");
  error.place = TextField(L, index, "place");
  PushField(L, index, "out_of_memory");
  error.out_of_memory = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return error;
}

absl::StatusCode CodeOfName(absl::string_view name) {
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    const auto each = static_cast<absl::StatusCode>(code);
    if (name == absl::StatusCodeToString(each)) return each;
  }
  return absl::StatusCode::kUnknown;
}

void InstallErrors(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kMetatable));
  PushMetatable(L);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

}  // namespace moonring::lua
