#ifndef MOONRING_LUA_SCRIPT_ERROR_H_
#define MOONRING_LUA_SCRIPT_ERROR_H_

// The text of an error that ended a script: the message, and the call stack of the user's
// functions.

#include <string>

#include <lua.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

// Converts the error object on top of the stack to text. A string is returned unchanged; a table is
// converted by its __tostring, else by its field `message`, else to a list of its fields.
std::string WordsOfError(lua_State* L);

// Call this in a message handler. Returns one line for each function of a user's script on the
// stack, innermost first: "\n  sft.lua:12: in function 'loss'". Moonring's functions are skipped,
// and so is everything after the twelfth line.
std::string ScriptFrames(lua_State* L);

// The status code of an error's text, "[PLACE: ]CODE: words" (lua/binding/guard.h), and the words.
// A place is FILE:LINE, a file or a function; there may be several. kUnknown, and the whole text,
// where the first part that is not a place is not a code: words may quote another error's code.
struct CodedWords {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  absl::string_view words;
};
CodedWords ReadCode(absl::string_view text);

// Whether `frames` (from ScriptFrames) adds information to the message. False if the message names
// no script line and the script is not the cause (a refused configuration: "INVALID_ARGUMENT: lr:
// expected ..", exit code 2), or if the only frame is the line that the message begins with.
bool AddsToMessage(const std::string& frames, const std::string& message, int exit_code);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_SCRIPT_ERROR_H_
