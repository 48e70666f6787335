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
// forward(ctx, ...) receives the function's arguments and runs without recording; it returns the
// function's results. backward(ctx, ...) receives a gradient for each result (zeros if there is
// none) and returns one for each argument of forward, nil for an argument without gradient. It can
// be differentiated itself if the backward keeps its graph (create_graph). `ctx` is the same table
// in both, for any shared values. Tensors that backward needs should go through ctx:save, which
// detects writes into them in between.

#include <lua.hpp>

namespace moonring::lua {

// func { forward =, backward =, name = }: pushes the function.
int MakeFunction(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_AUTOGRAD_FUNCTION_H_
