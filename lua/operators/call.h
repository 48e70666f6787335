#ifndef MOONRING_LUA_OPERATORS_CALL_H_
#define MOONRING_LUA_OPERATORS_CALL_H_

// Calls of LibTorch operators from Lua.
//
//   ops.add(x, y)                      positional arguments, in the schema's order
//   ops.add(x, y, { alpha = 2 })       a final table with string keys: arguments by name
//   x:add(y)                           a method: the object is the argument `self`
//   x:add_(y)                          in place: returns x, the same handle
//   ops.add(x, y, { out = z })         returns z
//   ops.max(x, 0)                      several results
//
// Overloads are resolved by the arguments: of the overloads that accept the arguments, the one that
// converts the fewest numbers to tensors is called; of several such, the first in the order of
// schemas.h. Omitted arguments have the schema's defaults; nil is None if the schema accepts None,
// else the default. A trailing nil counts as an argument.
//
// A call costs about a microsecond in addition to the operator's own time
// (//tests/lua:operator_calls_benchmark). Errors: INVALID_ARGUMENT. If no overload accepts the
// arguments, the message lists the operator's schemas; otherwise it contains LibTorch's message and
// a description of the arguments.

#include <lua.hpp>

#include "lua/operators/schemas.h"

namespace moonring::lua {

// Pushes the Lua function that calls `op`, which must outlive the Lua state. `as_method`: the
// function's first argument is passed as the schema's `self`.
void PushOperator(lua_State* L, const Operator* op, bool as_method);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_CALL_H_
