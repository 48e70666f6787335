#ifndef MOONRING_LUA_VM_SCRIPT_ERROR_H_
#define MOONRING_LUA_VM_SCRIPT_ERROR_H_

// The call stack of the user's functions, for an error that ended a script.

#include <string>

#include <lua.hpp>

#include "lua/binding/error_value.h"

namespace moonring::lua {

// Call this in a message handler. Returns one line for each function of a user's script on the
// stack, innermost first: "\n  sft.lua:12: in function 'loss'". Moonring's functions are skipped,
// and so is everything after the twelfth line.
std::string ScriptFrames(lua_State* L);

// Whether `frames` (from ScriptFrames) adds information to the message. False if the message names
// no script line and the script is not the cause (a refused configuration: "INVALID_ARGUMENT: lr:
// expected ..", exit code 2), or if the only frame is the line that the message begins with.
bool AddsToMessage(const std::string& frames, const ErrorValue& error, int exit_code);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_SCRIPT_ERROR_H_
