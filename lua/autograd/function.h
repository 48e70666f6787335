#ifndef MOONRING_LUA_AUTOGRAD_FUNCTION_H_
#define MOONRING_LUA_AUTOGRAD_FUNCTION_H_

// Operators with a backward in Lua, like torch.autograd.Function in Python.
//
//   local double = moonring.autograd.func {
//     name = "double",
//     forward = function(ctx, x) ctx:save(x) return 2 * x end,
//     backward = function(ctx, g) local x = ctx:saved() return 2 * g end,
//   }
//   local y = double(x)
//
// forward(ctx, ...) receives the function's arguments and runs without recording for autograd; it
// returns the function's results. backward(ctx, ...) receives a gradient for each result (zeros for
// a result without gradient) and returns one for each argument of forward, nil for an argument
// without gradient. The Lua backward is itself differentiable if the backward pass records its
// graph (create_graph). `ctx` is the same table in both functions, for any values that they share.
// Tensors that backward needs should go through ctx:save, which detects writes into them between
// forward and backward.

#include <lua.hpp>

namespace moonring::lua {

// The Lua function func { forward =, backward =, name = }: pushes the new operator, a Lua function.
int MakeFunction(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_AUTOGRAD_FUNCTION_H_
