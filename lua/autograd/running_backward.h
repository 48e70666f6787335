#ifndef MOONRING_LUA_AUTOGRAD_RUNNING_BACKWARD_H_
#define MOONRING_LUA_AUTOGRAD_RUNNING_BACKWARD_H_

// Which Lua state a backward runs for. A node of a script's own (function.h) calls Lua from inside
// LibTorch's engine, on the calling thread: it needs the coroutine that asked for the backward, and
// its errors must come back as what Lua raised.

#include <memory>

#include <lua.hpp>

#include "absl/functional/function_ref.h"

namespace moonring::lua {

// What the nodes of one Lua state share.
struct BackwardState;

// Once a state, before any backward.
void OpenRunningBackward(lua_State* L);

// Runs `body` (which pushes results and returns how many) as a backward of this coroutine. An error
// that Lua raised inside it is raised again as it was.
int RunBackward(lua_State* L, absl::FunctionRef<int()> body);

// A value of Lua's (a function, a table) that nodes hold, let go of with the last of them, which
// may be later than the state.
class HeldValue {
 public:
  // The one at `index`.
  HeldValue(lua_State* L, int index);
  ~HeldValue();
  HeldValue(const HeldValue&) = delete;
  HeldValue& operator=(const HeldValue&) = delete;

  // Pushes it.
  void Push(lua_State* L) const;

  // Calls it, a function, in the backward that runs: `push` pushes the arguments and says how many
  // they are, `read` sees the results from index `first` on. Throws what Lua raises. Throws where
  // none runs.
  void Call(absl::FunctionRef<int(lua_State*)> push,
            absl::FunctionRef<void(lua_State*, int first)> read) const;

 private:
  std::shared_ptr<BackwardState> state_;
  int reference_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_AUTOGRAD_RUNNING_BACKWARD_H_
