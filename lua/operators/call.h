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
// Overloads are resolved by the arguments: among those that accept them, the one that converts the
// fewest numbers to tensors, then the first in the order of schemas.h. Omitted arguments have the
// schema's defaults; nil is None if the schema accepts that, else the default. A trailing nil
// counts as an argument.
//
// A call costs about a microsecond in addition to the operator
// (//tests/lua:operator_calls_benchmark). Errors: INVALID_ARGUMENT, with the operator's schemas if
// none accepts the arguments, else with LibTorch's message and a description of the arguments.

#include <lua.hpp>

#include "lua/operators/schemas.h"

namespace moonring::lua {

// Pushes the function that calls `op`, which must outlive the state. `as_method`: its first
// argument is the schema's `self`.
void PushOperator(lua_State* L, const Operator* op, bool as_method);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_CALL_H_
