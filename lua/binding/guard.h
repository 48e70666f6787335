#ifndef MOONRING_LUA_BINDING_GUARD_H_
#define MOONRING_LUA_BINDING_GUARD_H_

// Converts C++ exceptions to Lua errors. No other file does this.
//
// Every C function that Lua calls runs inside the guard (LuaJIT's wrapper mode for C functions). A
// std::exception becomes a Lua error of lua/binding/error_value.h, with the text
//
//   sft.lua:12: comm.mesh: INVALID_ARGUMENT: sp=3 does not divide world size 8
//
// Its place is the user's script and line (if one is on the stack) and the native function. Lua's
// own errors pass through unchanged: LuaJIT unwinds with the platform's unwinder, so destructors
// run for them too, and the guard does not catch `...`. If the thread's stack is nearly full, the
// guard refuses the call with RESOURCE_EXHAUSTED (lua/binding/native_stack.h).

#include <string>
#include <vector>

#include <lua.hpp>

namespace moonring::lua {

// Installs the guard in this state. Throws std::runtime_error if LuaJIT was built without the
// wrapper mode.
void InstallGuard(lua_State* L);

// Sets the name of a native function ("comm.mesh") for the guard's messages.
void NameFunction(lua_State* L, lua_CFunction function, const char* name);

// Returns "script.lua:12: " for the innermost Lua function on the stack that is not part of
// Moonring; "" if there is none.
std::string ScriptPlace(lua_State* L);

// Whether a native function received more than `most` arguments; trailing nils are not counted.
// Must be called before the function pushes anything on the stack.
inline bool HasMoreArguments(lua_State* L, int most) {
  int count = lua_gettop(L);
  while (count > most && lua_isnil(L, count)) --count;
  return count > most;
}

// Raises the error for too many arguments: "Tensor:select: INVALID_ARGUMENT: expected (integer),
// got 2 arguments". `wanted` has one word for each parameter, a method's object first.
[[noreturn]] void RefuseArguments(lua_State* L, std::vector<std::string> wanted);
[[noreturn]] void RefuseArguments(lua_State* L,
                                  int most);  // for a function without words for its parameters

// Prefix of the chunk names of Moonring's Lua modules ("=moonring/config"). Error messages skip
// these modules and name the line of the user's script.
inline constexpr char kOwnChunk[] = "=moonring/";

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_GUARD_H_
