#ifndef MOONRING_LUA_OPERATORS_TENSOR_METHODS_H_
#define MOONRING_LUA_OPERATORS_TENSOR_METHODS_H_

// What makes every operator a function of `moonring.ops`, and a method of tensors.

#include <lua.hpp>

namespace moonring::lua {

// Pushes the module moonring.native.operators: `ops`, with a function for each name, made when it
// is first asked for; names(); schemas(name); count(). After the class of tensors is registered,
// whose methods and x[..] this adds to. `confined`: only the operators of sandbox_operators.h.
void OpenOperators(lua_State* L, bool confined);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_TENSOR_METHODS_H_
