#ifndef MOONRING_LUA_BINDING_VALUE_ERROR_H_
#define MOONRING_LUA_BINDING_VALUE_ERROR_H_

// Errors about a value that a script passed to a native function. Code that reads a value throws a
// ValueError with the value's stack index. The guard (guard.h) turns it into a Lua error that names
// the function and the argument, as in
//
//   sft.lua:12: Tensor:unsqueeze: INVALID_ARGUMENT: argument 1: expected an integer, got nil
//
// luaL_argerror and its kin are not used: they take the function's name from the calling code, and
// write '?' if it was called through pcall or as a metamethod.

#include <cstddef>
#include <stdexcept>
#include <string>

#include <lua.hpp>

#include "absl/strings/string_view.h"

namespace moonring::lua {

class ValueError : public std::runtime_error {
 public:
  // `words` says what was expected and what came. `absent`: no value was passed.
  ValueError(int index, const std::string& words, bool absent = false)
      : std::runtime_error(words), index_(index), absent_(absent) {}
  int index() const { return index_; }
  bool absent() const { return absent_; }

 private:
  int index_;
  bool absent_;
};

// A value for messages: "a string", "nil", "2.5", "a Tensor".
std::string WordsOfValue(lua_State* L, int index);

// Throws the ValueError "expected an integer, got nil". `wanted` is "integer": the article is
// added here.
[[noreturn]] void RefuseValue(lua_State* L, int index, absl::string_view wanted);

// Throws RefuseValue's error if the value does not have this Lua type.
void CheckType(lua_State* L, int index, int type);

// What makes the table at `index` something else than a list without holes, whose keys are 1, 2, ..
// n: "element 2 is nil, ..". "" for a list; its length is then lua_objlen's. Cost: one pass.
std::string ListFault(lua_State* L, int index);

// The length of the list at `index`. Throws a ValueError for another value, for a list with holes,
// and for a table with other keys: Lua's own length operator would ignore part of it.
size_t ListSize(lua_State* L, int index);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_VALUE_ERROR_H_
