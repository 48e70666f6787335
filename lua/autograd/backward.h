#ifndef MOONRING_LUA_AUTOGRAD_BACKWARD_H_
#define MOONRING_LUA_AUTOGRAD_BACKWARD_H_

// Autograd functions for scripts. Everything runs on the calling thread, so that a Lua function
// (function.h) can be part of a backward.

#include <string>

#include <ATen/core/Tensor.h>

#include <lua.hpp>

namespace moonring::lua {

// The Lua method x:backward(joined?, { gradient =, retain_graph =, create_graph = }). `joined` is a
// tensor that is back-propagated too, with a gradient of zero, so that the collectives in its graph
// run even if the loss does not depend on it.
int Backward(lua_State* L);

// backward(outputs, { gradients =, retain_graph =, create_graph = }): back-propagates from several
// outputs at once.
int BackwardOfAll(lua_State* L);

// grad(outputs, inputs, { gradients =, retain_graph =, create_graph =, allow_unused = }), as
// torch.autograd.grad. A list of inputs returns a list of gradients, a single tensor a tensor.
int Grad(lua_State* L);

// no_grad(fn, ...) and with_grad(fn, ...) run fn(...) without and with recording for autograd, and
// return its results.
int NoGrad(lua_State* L);
int WithGrad(lua_State* L);

// The name of the autograd node that computed a tensor ("MulBackward0"); "" for a leaf.
std::string NameOfNode(const at::Tensor& tensor);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_AUTOGRAD_BACKWARD_H_
