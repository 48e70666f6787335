#ifndef MOONRING_LUA_BINDING_TENSOR_H_
#define MOONRING_LUA_BINDING_TENSOR_H_

// Tensors as Lua handles. LuaJIT's garbage collector does not know how many bytes a tensor has, so
// a thousand unused handles of 100 MB each could accumulate. Therefore:
//
// - Each push of a tensor adds its bytes to a counter; a full collection runs after each GiB.
// - `moonring.scope(fn)` closes, at its end, every tensor created inside it, except those that fn
//   returns or that `x:keep()` moved out.
//
// Closing a handle does not free the storage while C++ (such as the autograd graph) references it.
// Any other use of a closed handle is an error.

#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include <lua.hpp>

#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"

namespace moonring::lua {

struct TensorHandle {
  at::Tensor tensor;  // undefined after the handle was closed
  bool kept = false;
};

// Creates the Lua state's counter of tensor bytes and its stack of open scopes. Must run before any
// tensor is pushed.
void OpenTensorBook(lua_State* L);

// Functions that create objects for a script call this. If --sandbox-memory limits the memory,
// every 64th call checks how much is used. Throws a StatusError (RESOURCE_EXHAUSTED) if that
// exceeds the limit and garbage collection does not free enough.
void LookAtHeap(lua_State* L);

// Records that this storage belongs to a model weight, for CheckWrite. `refusal`: for a copy of a
// weight stored elsewhere, why it must not be written to (the write would be lost); "" for a weight
// that may be written to.
void NoteWeight(lua_State* L, const at::Tensor& weight, std::string refusal);

// Call this before `operation` writes into a tensor. Throws if the tensor is a read-only copy of a
// weight. If the tensor is memory-mapped, the pages that the write makes private are added to the
// memory account.
void CheckWrite(lua_State* L, const at::Tensor& into, const char* operation);

// Registers the class of tensors and its methods (bind_tensor.cc).
void RegisterTensor(lua_State* L);

// moonring.scope(fn, ...): runs fn(...), closes the tensors that it created and did not close, and
// returns its results.
int Scope(lua_State* L);

template <>
struct Value<at::Tensor> {
  static constexpr const char* kWord = "Tensor";
  static at::Tensor Read(lua_State* L, int index);
  static int Push(lua_State* L, const at::Tensor& tensor);  // nil if undefined
};

// Reads an optional tensor from the options; returns an undefined tensor if it is absent. Throws
// for a closed tensor.
at::Tensor TensorOption(Options& options, const char* key);

// Reads a tensor from the options. Throws if it is absent or closed.
at::Tensor NeededTensor(Options& options, const char* key);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_TENSOR_H_
