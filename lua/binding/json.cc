#include "lua/binding/json.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/torch_status.h"

namespace moonring::lua {
namespace {

[[noreturn]] void RefuseJson(const std::string& words) {
  throw base::StatusError(absl::InvalidArgumentError(words));
}

// `room`: counts the memory of the value and of its text against the memory limit.
Json ReadJsonValue(lua_State* L, int index, int depth, base::ChargedBytes& room) {
  constexpr int64_t
      kValue = 160,
      kTexts = 4;  // object member with its map node; a copy, and the growing text of the whole
  const int64_t bytes =
      lua_type(L, index) == LUA_TSTRING ? kTexts * static_cast<int64_t>(lua_objlen(L, index)) : 0;
  base::ThrowIfError(room.Add(kValue + bytes, "JSON"));
  if (depth > 100) RefuseJson("JSON: a table that is nested too deeply or contains itself");
  switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
      return lua_toboolean(L, index) != 0;
    case LUA_TSTRING:
      return Value<std::string>::Read(L, index);
    case LUA_TNUMBER: {
      const double number = lua_tonumber(L, index);
      if (number == std::floor(number) && std::fabs(number) < 9007199254740992.0)
        return static_cast<int64_t>(number);
      return number;  // NaN and infinities become null, because JSON has none
    }
    case LUA_TTABLE:
      break;
    default:
      if (IsNull(L, index)) return nullptr;
      RefuseJson(absl::StrCat("JSON: cannot write a ", luaL_typename(L, index)));
  }
  const size_t size = lua_objlen(L, index);
  luaL_checkstack(L, 8, "JSON nested too deeply");
  lua_pushnil(L);
  const bool empty = lua_next(L, index) == 0;
  if (!empty) lua_pop(L, 2);
  if (size > 0 || empty) {  // an empty table becomes an empty list
    size_t keys = 0;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) ++keys;
    if (keys != size)
      RefuseJson(
          absl::StrCat("JSON: a list of ", size, " items that also has other keys, or holes"));
    Json list = Json::array();
    for (size_t i = 1; i <= size; ++i) {
      lua_rawgeti(L, index, static_cast<int>(i));
      list.push_back(ReadJsonValue(L, lua_gettop(L), depth + 1, room));
      lua_pop(L, 1);
    }
    return list;
  }
  std::map<std::string, Json> sorted;  // a file should not depend on Lua's arbitrary order
  lua_pushnil(L);
  while (lua_next(L, index) != 0) {
    if (lua_type(L, -2) != LUA_TSTRING)
      RefuseJson(absl::StrCat("JSON: a key that is a ", luaL_typename(L, -2)));
    const std::string key = lua_tostring(L, -2);
    base::ThrowIfError(room.Add(kTexts * static_cast<int64_t>(key.size()), "JSON"));
    sorted[key] = ReadJsonValue(L, lua_gettop(L), depth + 1, room);
    lua_pop(L, 1);
  }
  Json object = Json::object();
  for (auto& [key, value] : sorted) object[key] = std::move(value);
  return object;
}

}  // namespace

void PushNull(lua_State* L) { lua_pushlightuserdata(L, nullptr); }

bool IsNull(lua_State* L, int index) {
  return lua_islightuserdata(L, index) && lua_touserdata(L, index) == nullptr;
}

Json ReadJson(lua_State* L, int index) {
  base::ChargedBytes room;
  return ReadJsonValue(L, index, 0, room);
}

}  // namespace moonring::lua
