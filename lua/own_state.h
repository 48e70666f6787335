#ifndef MOONRING_LUA_OWN_STATE_H_
#define MOONRING_LUA_OWN_STATE_H_

// An isolated Lua state for code that must end in limited time (rewards), created by another state.
// A call that exceeds its limits fails, and the creating state continues.
//
//   time      Each call has a deadline, checked by the hook that counts instructions, every 1,000
//             (lua/limits.h). LuaJIT calls no hook from compiled code, so this state uses the
//             interpreter: arithmetic loops and patterns take two to four times as long. A call
//             into C is not interrupted.
//   memory    The Lua heap is charged to its own confinement, and to its creator's.
//   counted   Its instructions are added to its creator's, if those are limited.
//   values    Copied in and out (lua/binding/plain_value.h); no table is shared.
//   printed   Lines of print and io.write are kept for the creator.
//   sandbox   Sandboxed if its creator is.
//
// It runs one of Moonring's modules, whose functions are called by name. It belongs to its
// creator's thread. Cost: creation 10 ms and less than 1 MB; a call 1 ms (for full collections
// after it) plus copying, 40 ms for 64 rows of 5,000 ids and their texts.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lua/binding/plain_value.h"
#include "lua/vm.h"

namespace moonring::lua {

struct OwnStateOptions {
  std::string module;        // "moonring.rewards.inside"
  int64_t memory = 0;        // most bytes of its heap
  std::string memory_limit;  // option that set the limit, for messages: "reward_memory_mib"
};

class OwnState {
 public:
  // Throws std::runtime_error if there is no memory for it.
  OwnState(Host& maker, OwnStateOptions options);  // `maker` must outlive it
  OwnState(const OwnState&) = delete;
  OwnState& operator=(const OwnState&) = delete;

  enum class End { kDone, kRaised, kDeadline, kMemory, kCancelled };
  struct Outcome {
    End end = End::kDone;
    ScriptError error;
    std::vector<PlainValue> results;
  };
  Outcome Call(const std::string& function, const std::vector<PlainValue>& arguments,
               double seconds);

  // Returns the lines printed since the last call. If there are too many, the first ones and the
  // number of lines that were dropped.
  std::vector<std::string> TakeLines();

  const std::string& module() const { return options_.module; }

 private:
  void Keep(const std::string& line);

  const OwnStateOptions options_;
  Host& maker_;
  std::vector<std::string> lines_;
  int64_t printed_ = 0, bytes_ = 0;  // lines printed, and bytes of the kept ones
  Limits* limits_ = nullptr;         // of vm_
  std::unique_ptr<Vm> vm_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OWN_STATE_H_
