#ifndef MOONRING_LUA_AUTOGRAD_RUNNING_BACKWARD_H_
#define MOONRING_LUA_AUTOGRAD_RUNNING_BACKWARD_H_

// Tracks the Lua state for which a backward pass runs. A graph node with a Lua backward
// (function.h) calls Lua from inside LibTorch's engine, on the calling thread. It needs the
// coroutine that started the backward pass, and its errors must be raised there as the original Lua
// errors. The same holds for hooks that a model's forward calls from inside its blocks, and again
// in the backward.

#include <memory>

#include <lua.hpp>

#include "absl/functional/function_ref.h"

namespace moonring::lua {

// Data that all autograd nodes of one Lua state share.
struct BackwardState;

// Call this once for each Lua state, before any backward pass.
void OpenRunningBackward(lua_State* L);

// Runs `body`, which pushes results and returns their number, as a backward pass, or a forward with
// hooks inside blocks, started by the coroutine L. A Lua error inside `body` is raised unchanged.
int RunBackward(lua_State* L, absl::FunctionRef<int()> body);

// A reference from autograd nodes to a Lua value (a function, a table). It is released with the
// last node, which may outlive the state.
class HeldValue {
 public:
  // References the value at `index`.
  HeldValue(lua_State* L, int index);
  ~HeldValue();
  HeldValue(const HeldValue&) = delete;
  HeldValue& operator=(const HeldValue&) = delete;

  // Pushes the referenced value.
  void Push(lua_State* L) const;

  // Calls the referenced function in the running backward pass: `push` pushes the arguments and
  // returns their number; `read` reads the results from stack index `first` on. Throws the Lua
  // error; also throws if no backward pass is running.
  void Call(absl::FunctionRef<int(lua_State*)> push,
            absl::FunctionRef<void(lua_State*, int first)> read) const;

 private:
  std::shared_ptr<BackwardState> state_;
  int reference_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_AUTOGRAD_RUNNING_BACKWARD_H_
