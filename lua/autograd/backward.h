#ifndef MOONRING_LUA_AUTOGRAD_BACKWARD_H_
#define MOONRING_LUA_AUTOGRAD_BACKWARD_H_

// Gradients, as scripts ask for them. Everything runs on the calling thread, so that a function of
// the script (function.h) may be part of a backward.

#include <string>

#include <ATen/core/Tensor.h>

#include <lua.hpp>

namespace moonring::lua {

// x:backward(joined?, { gradient =, retain_graph =, create_graph = }). `joined` adds a gradient of
// zero: its part of the graph runs backward, with the collectives in it, whatever the loss was made
// of.
int Backward(lua_State* L);

// backward(outputs, { gradients =, retain_graph =, create_graph = }): the same of several.
int BackwardOfAll(lua_State* L);

// grad(outputs, inputs, { gradients =, retain_graph =, create_graph =, allow_unused = }): as
// torch.autograd.grad. Lists give a list, a tensor a tensor.
int Grad(lua_State* L);

// no_grad(fn, ...) and with_grad(fn, ...): what fn(...) gives, without and with recording.
int NoGrad(lua_State* L);
int WithGrad(lua_State* L);

// The name of the node that made a tensor ("MulBackward0"); "" of a leaf.
std::string NameOfNode(const at::Tensor& tensor);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_AUTOGRAD_BACKWARD_H_
