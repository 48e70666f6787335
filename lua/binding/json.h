#ifndef MOONRING_LUA_BINDING_JSON_H_
#define MOONRING_LUA_BINDING_JSON_H_

// JSON values between Lua's stack and C++. A list is a Lua list, an object is a table with string
// keys. JSON null is a special value other than nil, so that a key can be present and null.

#include <nlohmann/json.hpp>

#include <lua.hpp>

#include "base/text/ordered_json.h"
#include "lua/binding/stack.h"

namespace moonring::lua {

using Json = base::OrderedJson;

void PushNull(lua_State* L);
bool IsNull(lua_State* L, int index);

template <typename AnyJson>
void PushJson(lua_State* L, const AnyJson& value) {
  luaL_checkstack(L, 8, "JSON nested too deeply");
  if (value.is_object()) {
    lua_createtable(L, 0, static_cast<int>(value.size()));
    for (const auto& [key, item] : value.items()) {
      lua_pushlstring(L, key.data(), key.size());
      PushJson(L, item);
      lua_rawset(L, -3);
    }
  } else if (value.is_array()) {
    lua_createtable(L, static_cast<int>(value.size()), 0);
    for (size_t i = 0; i < value.size(); ++i) {
      PushJson(L, value[i]);
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
  } else if (value.is_string()) {
    Value<std::string>::Push(L, value.template get_ref<const std::string&>());
  } else if (value.is_boolean()) {
    lua_pushboolean(L, value.template get<bool>());
  } else if (value.is_number()) {
    lua_pushnumber(L, value.template get<double>());
  } else {
    PushNull(L);
  }
}

// Reads the value at the absolute stack position `index`. Object keys are sorted, because Lua's
// order is arbitrary; an empty table becomes an empty list; whole numbers become integers. Throws
// INVALID_ARGUMENT for values that JSON cannot represent: a function, a handle, a key that is not a
// string, a list with holes, a table that contains itself. The memory of the result counts towards
// the limit of --sandbox-memory.
Json ReadJson(lua_State* L, int index);

template <>
struct Value<Json> {
  static constexpr const char* kWord = "table";
  static Json Read(lua_State* L, int index) { return ReadJson(L, index); }
  static int Push(lua_State* L, const Json& value) { return PushJson(L, value), 1; }
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_JSON_H_
