#ifndef MOONRING_LUA_BINDING_TENSOR_H_
#define MOONRING_LUA_BINDING_TENSOR_H_

// Tensors as Lua handles. LuaJIT's garbage collector does not see a tensor's bytes, so a thousand
// unused handles of 100 MB could accumulate. Therefore:
//
// - Each push reports the tensor's bytes, and a full collection runs after each GiB reported.
// - `moonring.scope(fn)` closes, at its end, every tensor created inside it, except those that fn
//   returns or that `x:keep()` moved out.
//
// The storage stays alive while C++ (such as the autograd graph) references it. Any use of a closed
// handle is an error.

#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include <lua.hpp>

#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"

namespace moonring::lua {

struct TensorHandle {
  at::Tensor tensor;  // undefined once closed
  bool kept = false;
};

// Creates a state's record of reported bytes and open scopes. Must run before any tensor is pushed.
void OpenTensorBook(lua_State* L);

// Call this from functions that create objects for a script. If --sandbox-memory limits the heap,
// every 64th call checks how much of it is used. Throws a StatusError (RESOURCE_EXHAUSTED) if that
// exceeds the limit and garbage collection does not free enough.
void LookAtHeap(lua_State* L);

// Registers this storage as a model weight's, for CheckWrite. `refusal`: why it must not be written
// to, if it is a copy of a weight stored elsewhere, so that a write would be lost; "" if it may be.
void NoteWeight(lua_State* L, const at::Tensor& weight, std::string refusal);

// Call this before `operation` writes into a tensor. Throws if it is a read-only copy of a weight.
// Accounts for memory-mapped pages that become private by the write.
void CheckWrite(lua_State* L, const at::Tensor& into, const char* operation);

// Registers the class and its methods (bind_tensor.cc).
void RegisterTensor(lua_State* L);

// scope(fn, ...): runs fn(...), closes the tensors that it left open, and returns its results.
int Scope(lua_State* L);

template <>
struct Value<at::Tensor> {
  static constexpr const char* kWord = "Tensor";
  static at::Tensor Read(lua_State* L, int index);
  static int Push(lua_State* L, const at::Tensor& tensor);  // nil if undefined
};

// Reads an optional tensor from the options; undefined if absent. Throws for a closed tensor.
at::Tensor TensorOption(Options& options, const char* key);

// Reads a required tensor from the options.
at::Tensor NeededTensor(Options& options, const char* key);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_TENSOR_H_
