#ifndef MOONRING_LUA_BINDING_SET_FIELD_H_
#define MOONRING_LUA_BINDING_SET_FIELD_H_

// Sets a field of the table on top of Lua's stack.

#include <lua.hpp>

#include "lua/binding/stack.h"

namespace moonring::lua {

template <typename T>
void SetField(lua_State* L, const char* name, const T& value) {
  Value<T>::Push(L, value);
  lua_setfield(L, -2, name);
}

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_SET_FIELD_H_
