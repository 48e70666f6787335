#ifndef MOONRING_LUA_BINDING_TENSOR_H_
#define MOONRING_LUA_BINDING_TENSOR_H_

// Tensors as Lua handles. LuaJIT cannot see a tensor's bytes, so a thousand dropped handles of 100
// MB would stay:
//
//   - each push charges the tensor's bytes, and a full collection runs once a GiB has been charged;
//   - `moonring.scope(fn)` lets go, at its end, of every tensor made inside it, but for those that
//   fn returns or that
//     were moved out by `x:keep()`. The storage lives on where C++ (an autograd graph, say) still
//     holds it.
//
// A handle that was let go is closed: any use of it is an error.

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

// Must run before any tensor is pushed: the book of charged bytes and open scopes, one a state.
void OpenTensorBook(lua_State* L);

// To be called by what makes something for a script: where --sandbox-memory counts the heap, each
// 64th time looks how much of it is taken. Throws a StatusError (RESOURCE_EXHAUSTED) where that is
// more than there may be, and collecting garbage frees too little.
void LookAtHeap(lua_State* L);

// Tells CheckWrite that this storage is a weight's. `refusal`: why nothing may be written into it,
// where it is a copy of what lies elsewhere, so that a write would be lost; "": it may.
void NoteWeight(lua_State* L, const at::Tensor& weight, std::string refusal);

// To be called before `operation` writes into a tensor: throws where it is a weight that nothing
// may be written into, and accounts for pages that were a file's until now.
void CheckWrite(lua_State* L, const at::Tensor& into, const char* operation);

// The class and its operations (bind_tensor.cc).
void RegisterTensor(lua_State* L);

// scope(fn, ...): runs fn(...), closes what it left open, returns what it returned.
int Scope(lua_State* L);

template <>
struct Value<at::Tensor> {
  static constexpr const char* kWord = "Tensor";
  static at::Tensor Read(lua_State* L, int index);
  static int Push(lua_State* L, const at::Tensor& tensor);  // nil where undefined
};

// A tensor among named options; undefined where absent. An error where it is closed.
at::Tensor TensorOption(Options& options, const char* key);

// The same where it must be there.
at::Tensor NeededTensor(Options& options, const char* key);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_TENSOR_H_
