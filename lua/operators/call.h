#ifndef MOONRING_LUA_OPERATORS_CALL_H_
#define MOONRING_LUA_OPERATORS_CALL_H_

// Calls of LibTorch's operators from Lua.
//
//   ops.add(x, y)                      arguments by place, as the schema orders them
//   ops.add(x, y, { alpha = 2 })       a table with names as keys, at the end: arguments by name
//   x:add(y)                           the same: the object is the argument `self`
//   x:add_(y)                          in place: gives x itself back, the same handle
//   ops.add(x, y, { out = z })         gives z back
//   ops.max(x, 0)                      several results
//
// Overloads are resolved by what is given: of those that take it, the one that turns the fewest
// numbers into tensors; then the first in the order of schemas.h. Arguments that are left out have
// the schema's defaults; nil is None where the schema takes that, else the default. A nil at the
// end counts as given.
//
// Costs some microsecond beside the operator itself (//tests/lua:operator_calls_benchmark). Errors:
// INVALID_ARGUMENT, with the operator's schemas where none takes what is given, else what LibTorch
// says, with what was given.

#include <lua.hpp>

#include "lua/operators/schemas.h"

namespace moonring::lua {

// Pushes the function that calls `op`, which must live as long as the state. `as_method`: its first
// argument is the one that the schema calls self.
void PushOperator(lua_State* L, const Operator* op, bool as_method);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_CALL_H_
