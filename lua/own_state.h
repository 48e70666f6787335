#ifndef MOONRING_LUA_OWN_STATE_H_
#define MOONRING_LUA_OWN_STATE_H_

// A Lua state that another one makes for code that must come to an end (rewards): its time and its
// memory are limited, and where it goes beyond them that call fails and its maker goes on.
//
//   time      a deadline of each call, seen by the hook that counts instructions, every 1,000
//             (lua/limits.h). LuaJIT calls no hook from compiled code: this state interprets: loops
//             of arithmetic, and patterns, take two to four times as long. One call into C is seen
//             only when it has ended.
//   memory    of Lua's heap, charged to a confinement of its own, and to its maker's
//   counted   its instructions among its maker's, where those are limited
//   values    go over as copies (lua/binding/plain_value.h); no table is shared
//   printed   lines of print and io.write are kept for who made it
//   sandbox   as its maker: confined where that one is
//
// It runs a module of Moonring's own, whose functions are called by name. Belongs to its maker's
// thread. Cost: 10 ms and less than 1 MB to make it; of a call 1 ms (full collections after it) and
// what is copied, 40 ms for 64 rows of 5,000 ids and their texts.

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
  int64_t memory = 0;        // bytes of its heap at most
  std::string memory_limit;  // what set them, for messages: "reward_memory_mib"
};

class OwnState {
 public:
  // Throws std::runtime_error where there is no room for it.
  OwnState(Host& maker, OwnStateOptions options);  // `maker` outlives it
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

  // What was printed since the last time; of very much the first, and how many lines more.
  std::vector<std::string> TakeLines();

  const std::string& module() const { return options_.module; }

 private:
  void Keep(const std::string& line);

  const OwnStateOptions options_;
  Host& maker_;
  std::vector<std::string> lines_;
  int64_t printed_ = 0, bytes_ = 0;  // lines, and bytes of those that are kept
  Limits* limits_ = nullptr;         // of vm_
  std::unique_ptr<Vm> vm_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OWN_STATE_H_
