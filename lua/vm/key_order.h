#ifndef MOONRING_LUA_VM_KEY_ORDER_H_
#define MOONRING_LUA_VM_KEY_ORDER_H_

// One order of a table's keys, the same on every rank and in every run:
//
//   positive integers, ascending; other numbers, ascending; strings, by bytes; false, true;
//   then all other keys (tables, functions, userdata), in LuaJIT's order.
//
// LuaJIT's own order of strings depends on a seed that each process draws. The functions `pairs`,
// `next` and `table.foreach` of a state are replaced by those of lua/moonring/base/key_order.lua,
// which use the two native functions here. Cost of n keys: one pass, and n log n comparisons. Both
// count as instructions where a state limits them (limits.h).

#include <lua.hpp>

namespace moonring::lua {

// Replaces the functions. `require` must find Moonring's modules.
void InstallKeyOrder(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_KEY_ORDER_H_
