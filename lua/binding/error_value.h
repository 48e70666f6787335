#ifndef MOONRING_LUA_BINDING_ERROR_VALUE_H_
#define MOONRING_LUA_BINDING_ERROR_VALUE_H_

// Lua's form of an error that has a status code: a table
//
//   { code = "INVALID_ARGUMENT", message = "sp=3 does not divide world size 8",
//     place = "sft.lua:12: comm.mesh" }
//
// whose metatable makes it usable as its text, "PLACE: CODE: MESSAGE": tostring(why), why .. "" and
// why:find "world" work. Codes are read from the field, never from a text. Errors without a code,
// such as a script's `error "text"`, stay what they are.

#include <string>

#include <lua.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

struct ErrorValue {
  absl::StatusCode code = absl::StatusCode::kUnknown;  // kUnknown: an error without a code
  std::string message;                                 // without place and code
  std::string place = {};      // "sft.lua:12: comm.mesh"; "" if Moonring's own Lua made the call
  bool out_of_memory = false;  // memory ran out, not a disk or another limit

  std::string Text() const;
  // The text for a command line: without the code if there is no place before it, because the code
  // does not help a user.
  std::string Shown() const;
};

// The status as an error, without a place. `status` must not be OK.
ErrorValue ErrorOfStatus(const absl::Status& status);

// Pushes the table above; for an error without a code, its message.
void PushError(lua_State* L, const ErrorValue& error);

// Whether a value is the table above.
bool IsError(lua_State* L, int index);

// Reads any error object: the table above; else kUnknown and the object's text. That is a string
// itself; of a table its __tostring, else its field `message`, else a list of its fields.
ErrorValue ReadError(lua_State* L, int index);

// The code with this name, such as "DATA_LOSS"; kUnknown if there is none.
absl::StatusCode CodeOfName(absl::string_view name);

// Prepares a new state for PushError. InstallGuard calls it.
void InstallErrors(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_ERROR_VALUE_H_
