#ifndef MOONRING_LUA_VM_ISOLATED_STATE_H_
#define MOONRING_LUA_VM_ISOLATED_STATE_H_

// An isolated Lua state for code that must end in limited time (rewards), created by a running Lua
// state (its creator). A call that exceeds its limits fails, and the creator continues.
//
//   time      Each call has a deadline. The hook that counts instructions checks it, after every
//             1,000 (lua/vm/limits.h). LuaJIT calls no hook from compiled code, so this state uses
//             the interpreter: arithmetic loops and patterns take two to four times as long. A call
//             into C is not interrupted.
//   memory    The Lua heap counts towards this state's own limit, and towards its creator's.
//   counted   Its instructions are added to its creator's, if those are limited.
//   values    Arguments and results are copied (lua/binding/plain_value.h); no table is shared.
//   printed   Lines of print and io.write are kept for the creator (TakeLines).
//   sandbox   Sandboxed if its creator is.
//
// The state runs one of Moonring's modules, whose functions are called by name. Only its creator's
// thread may use it. Cost: creation 10 ms and less than 1 MB; a call 1 ms (for full collections
// after it) plus copying, 40 ms for 64 rows of 5,000 ids and their texts.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lua/binding/plain_value.h"
#include "lua/vm/vm.h"

namespace moonring::lua {

struct IsolatedStateOptions {
  std::string module;        // Moonring's module to run: "moonring.rewards.inside"
  int64_t memory = 0;        // most bytes of the state's Lua heap
  std::string memory_limit;  // option that set the limit, for messages: "reward_memory_mib"
};

class IsolatedState {
 public:
  // Throws std::runtime_error if there is no memory for the state.
  IsolatedState(Host& maker, IsolatedStateOptions options);  // `maker` must outlive it
  IsolatedState(const IsolatedState&) = delete;
  IsolatedState& operator=(const IsolatedState&) = delete;

  enum class End { kDone, kRaised, kDeadline, kMemory, kCancelled };
  struct Outcome {
    End end = End::kDone;
    ScriptError error;
    std::vector<PlainValue> results;
  };
  Outcome Call(const std::string& function, const std::vector<PlainValue>& arguments,
               double seconds);

  // Returns the lines printed since the last call. If too many were printed, returns the first ones
  // and the number of lines that were dropped.
  std::vector<std::string> TakeLines();

  const std::string& module() const { return options_.module; }

 private:
  void Keep(const std::string& line);

  const IsolatedStateOptions options_;
  Host& maker_;
  std::vector<std::string> lines_;
  int64_t printed_ = 0, bytes_ = 0;  // lines printed, and bytes of those that are kept
  Limits* limits_ = nullptr;         // the limits of vm_
  std::unique_ptr<Vm> vm_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_ISOLATED_STATE_H_
