#ifndef MOONRING_LUA_SCRIPT_ERROR_H_
#define MOONRING_LUA_SCRIPT_ERROR_H_

// What an error says that ended a script: one message, and the calls of the user's scripts that led
// to it.

#include <string>

#include <lua.hpp>

namespace moonring::lua {

// The words of the error object on top: a string; of a table what __tostring says, else its field
// `message`, else its fields.
std::string WordsOfError(lua_State* L);

// From within a message handler: a line for each function of a user's script on the stack, the
// innermost first,
// "\n  sft.lua:12: in function 'loss'"; Moonring's own are left out, and so is what comes after the
// twelfth.
std::string ScriptFrames(lua_State* L);

// Whether `frames` tell more than the message does. Of a message that names no place and no fault
// of the script (a configuration is refused so: "INVALID_ARGUMENT: lr: wanted ..", exit code 2)
// they do not, nor does the one frame that the message begins with.
bool AddsToMessage(const std::string& frames, const std::string& message, int exit_code);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_SCRIPT_ERROR_H_
