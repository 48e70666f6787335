#include "lua/binding/value_error.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace moonring::lua {
namespace {

std::string WithArticle(absl::string_view noun) {
  const bool vowel =
      !noun.empty() && absl::string_view("aeiouAEIOU").find(noun[0]) != absl::string_view::npos;
  return absl::StrCat(vowel ? "an " : "a ", noun);
}

// The first index from 1 to size + 1 whose element is nil.
size_t FirstHole(lua_State* L, int index, size_t size) {
  for (size_t i = 1; i <= size; ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    const bool hole = lua_isnil(L, -1);
    lua_pop(L, 1);
    if (hole) return i;
  }
  return size + 1;
}

// The fault of a table that has the key at the top of the stack, which is not one of 1 .. size.
std::string FaultOfKey(lua_State* L, int index, size_t size) {
  const int type = lua_type(L, -1);
  if (type == LUA_TSTRING)
    return absl::StrCat("expected a list, got a table with the field '", lua_tostring(L, -1), "'");
  if (type != LUA_TNUMBER)
    return absl::StrCat("expected a list, got a table with ", WithArticle(luaL_typename(L, -1)),
                        " as a key");
  const double key = lua_tonumber(L, -1);
  if (key < 1 || key != std::floor(key))
    return absl::StrCat("expected a list, which counts from 1, got a table with the element ", key);
  return absl::StrCat("element ", FirstHole(L, index, size), " is nil, and there is an element ",
                      key, ": a list may not have holes");
}

}  // namespace

std::string WordsOfValue(lua_State* L, int index) {
  switch (lua_type(L, index)) {
    case LUA_TNONE:
      return "no value";
    case LUA_TNIL:
      return "nil";
    case LUA_TNUMBER:
      return absl::StrCat(lua_tonumber(L, index));
    case LUA_TBOOLEAN:
      return lua_toboolean(L, index) != 0 ? "true" : "false";
    case LUA_TUSERDATA:
      if (luaL_getmetafield(L, index, "__name") != 0) {
        std::string name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "userdata";
        lua_pop(L, 1);
        return WithArticle(name);
      }
      [[fallthrough]];
    default:
      return WithArticle(luaL_typename(L, index));
  }
}

void RefuseValue(lua_State* L, int index, absl::string_view wanted) {
  throw ValueError(
      index, absl::StrCat("expected ", WithArticle(wanted), ", got ", WordsOfValue(L, index)),
      lua_isnone(L, index));
}

void CheckType(lua_State* L, int index, int type) {
  if (lua_type(L, index) != type) RefuseValue(L, index, lua_typename(L, type));
}

std::string ListFault(lua_State* L, int index) {
  if (index < 0) index = lua_gettop(L) + 1 + index;
  if (!lua_checkstack(L, 4)) return "a list that is nested too deep";
  const size_t size = lua_objlen(L, index);
  size_t found = 0;
  for (lua_pushnil(L); lua_next(L, index) != 0;) {
    lua_pop(L, 1);
    const double key = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
    if (key >= 1 && key <= static_cast<double>(size) && key == std::floor(key)) {
      ++found;
      continue;
    }
    std::string fault = FaultOfKey(L, index, size);
    lua_pop(L, 1);
    return fault;
  }
  if (found == size) return "";
  return absl::StrCat("element ", FirstHole(L, index, size), " is nil, and there is an element ",
                      size, ": a list may not have holes");
}

size_t ListSize(lua_State* L, int index) {
  CheckType(L, index, LUA_TTABLE);
  if (std::string fault = ListFault(L, index); !fault.empty()) throw ValueError(index, fault);
  return lua_objlen(L, index);
}

}  // namespace moonring::lua
