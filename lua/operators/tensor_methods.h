#ifndef MOONRING_LUA_OPERATORS_TENSOR_METHODS_H_
#define MOONRING_LUA_OPERATORS_TENSOR_METHODS_H_

// Makes every operator a function of `moonring.ops` and a method of tensors.

#include <lua.hpp>

namespace moonring::lua {

// Pushes the module moonring.native.operators: `ops`, a table with a function for each operator,
// created on first use; names(); schemas(name); count(). Also adds methods and indexing to the Lua
// class of tensors, which must be registered before. `confined`: only the operators of
// sandbox_operators.h are available.
void OpenOperators(lua_State* L, bool confined);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_TENSOR_METHODS_H_
