#ifndef MOONRING_LUA_GUARD_H_
#define MOONRING_LUA_GUARD_H_

// The one barrier between C++ exceptions and Lua errors.
//
// Every C function that Lua calls runs inside it (LuaJIT's wrapper mode). A std::exception becomes a Lua error, one string:
//
//   sft.lua:12: comm.mesh: INVALID_ARGUMENT: sp=3 does not divide world size 8
//
// (the user's script and line where one is on the stack, the bound function, the status code, the message). Lua's own
// errors pass through untouched: LuaJIT unwinds by the platform's unwinder, so destructors run for them too, and
// nothing here catches `...`. Where the thread's stack comes to its end (lua/native_stack.h) a call is refused: RESOURCE_EXHAUSTED.

#include <lua.hpp>

namespace moonring::lua {

// Installs the guard in this state. Throws std::runtime_error where LuaJIT was built without it.
void InstallGuard(lua_State* L);

// Tells the guard under which name the function is bound ("comm.mesh"), for its messages.
void NameFunction(lua_State* L, lua_CFunction function, const char* name);

// Chunk names of Moonring's own Lua begin with this ("=moonring/config"), so that an error names the user's line instead.
inline constexpr char kOwnChunk[] = "=moonring/";

}  // namespace moonring::lua

#endif  // MOONRING_LUA_GUARD_H_
