#ifndef MOONRING_LUA_BINDING_MODULE_H_
#define MOONRING_LUA_BINDING_MODULE_H_

// Tables of native functions.

#include <initializer_list>

#include <lua.hpp>

#include "lua/binding/stack.h"

namespace moonring::lua {

// Pushes a new table of functions. The guard (lua/binding/guard.h) calls them "module.name" in
// error messages.
void PushModule(lua_State* L, const char* module, std::initializer_list<NamedFunction> functions);

// Adds functions to the table on top of the stack. Error messages call them "module.name" too.
void AddToModule(lua_State* L, const char* module, std::initializer_list<NamedFunction> functions);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_MODULE_H_
