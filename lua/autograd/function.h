#ifndef MOONRING_LUA_AUTOGRAD_FUNCTION_H_
#define MOONRING_LUA_AUTOGRAD_FUNCTION_H_

// An operator of a script's own, with a backward in Lua: what torch.autograd.Function is in Python.
//
//   local double = moonring.autograd.func {
//     name = "double",
//     forward = function(ctx, x) ctx:save(x) return 2 * x end,
//     backward = function(ctx, g) local x = ctx:saved() return 2 * g end,
//   }
//   local y = double(x)
//
// forward(ctx, ...) sees what the function is called with and records nothing; the tensors it
// returns are the function's. backward(ctx, ...) sees a gradient for each of them (zeros where none
// came) and returns one for each argument of forward: nil where there is none. It may be
// differentiated itself, where a backward keeps its graph (create_graph). `ctx` is one table for
// both, for whatever else they share; what backward needs of tensors goes through ctx:save, which
// tells of writes in between.

#include <lua.hpp>

namespace moonring::lua {

// func { forward =, backward =, name = }: pushes the function.
int MakeFunction(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_AUTOGRAD_FUNCTION_H_
