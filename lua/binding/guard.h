#ifndef MOONRING_LUA_BINDING_GUARD_H_
#define MOONRING_LUA_BINDING_GUARD_H_

// The one barrier between C++ exceptions and Lua errors.
//
// Every C function that Lua calls runs inside it (LuaJIT's wrapper mode). A std::exception becomes
// a Lua error, one string:
//
//   sft.lua:12: comm.mesh: INVALID_ARGUMENT: sp=3 does not divide world size 8
//
// (the user's script and line where one is on the stack, the bound function, the status code, the
// message). Lua's own errors pass through untouched: LuaJIT unwinds by the platform's unwinder, so
// destructors run for them too, and nothing here catches `...`. Where the thread's stack comes to
// its end (lua/binding/native_stack.h) a call is refused: RESOURCE_EXHAUSTED.

#include <string>
#include <vector>

#include <lua.hpp>

namespace moonring::lua {

// Installs the guard in this state. Throws std::runtime_error where LuaJIT was built without it.
void InstallGuard(lua_State* L);

// Tells the guard under which name the function is bound ("comm.mesh"), for its messages.
void NameFunction(lua_State* L, lua_CFunction function, const char* name);

// "script.lua:12: " for the innermost Lua function on the stack that is not Moonring's own; ""
// where there is none.
std::string ScriptPlace(lua_State* L);

// Whether a bound function, which this must be called from first, was given more than `most`
// arguments; a nil at the end is none.
inline bool HasMoreArguments(lua_State* L, int most) {
  int count = lua_gettop(L);
  while (count > most && lua_isnil(L, count)) --count;
  return count > most;
}

// Refuses them: "Tensor:select: INVALID_ARGUMENT: wanted (integer), got 2 arguments". `wanted`: a
// word for each parameter, the object of a method first.
[[noreturn]] void RefuseArguments(lua_State* L, std::vector<std::string> wanted);
[[noreturn]] void RefuseArguments(lua_State* L,
                                  int most);  // of a function whose parameters have no words

// Chunk names of Moonring's own Lua begin with this ("=moonring/config"), so that an error names
// the user's line instead.
inline constexpr char kOwnChunk[] = "=moonring/";

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_GUARD_H_
