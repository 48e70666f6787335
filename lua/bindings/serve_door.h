#ifndef MOONRING_LUA_BINDINGS_SERVE_DOOR_H_
#define MOONRING_LUA_BINDINGS_SERVE_DOOR_H_

#include <lua.hpp>

#include "lua/binding/options.h"
#include "lua/binding/stack.h"

namespace moonring::lua {

// Pushes the table of an option, and returns its index; 0: the option is absent.
int PushTableOption(lua_State* L, Options& options, const char* key);

// Registers the class ServeDoor.
void RegisterServeDoor(lua_State* L);

// The function moonring.native.serve.open, which opens one.
extern const NamedFunction kOpenServeDoor;

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_SERVE_DOOR_H_
