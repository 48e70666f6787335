#ifndef MOONRING_LUA_LIMITS_H_
#define MOONRING_LUA_LIMITS_H_

// What stops a script that does not stop by itself: a number of instructions, a time of the clock,
// bytes of memory, the wish of another thread.
//
//   instructions  counted by LuaJIT's hook, 1,000 at a time. LuaJIT calls no hook from compiled
//   code, so a state that is watched must interpret. Once over, every
//                 further instruction raises the error again: neither pcall nor a coroutine goes
//                 on. One call into C is one instruction, however long it takes (a forward pass);
//                 of patterns that could take for ever each step counts (lua/counted_search.h).
//                 At the bottom of a stack that is full LuaJIT has no room to call the hook; what
//                 it raises instead must be caught for a script to go on there, so each error that
//                 is caught counts 1,000 too (lua/moonring/sandbox.lua).
//   deadline      looked at where instructions are counted; once over, as instructions that are
//                 A call into C ends before it is seen
//   memory        the confinement's: Lua's heap is charged to it by the state's allocator; where it
//                 nears the limit, garbage is collected first. What operators leave in malloc's
//                 heap beside tensors' bytes is looked at where instructions are counted, and
//                 between operators (lua/binding/tensor.h)
//   cancelling    seen where instructions are counted

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <lua.hpp>

#include "base/files/confinement.h"

namespace moonring::lua {

// A wish to end, from any thread.
enum class Cancel : int {
  kNone,
  kAtStep,  // at the next border of a step, after a checkpoint: for those who ask for it
            // (run.preempted)
  kNow,
};
using CancelFlag = std::atomic<Cancel>;

struct Limits {
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  int64_t instructions = 0;                        // of one run; 0: any number
  std::shared_ptr<base::Confinement> confinement;  // null: none
  // Of a state that another one made: what that one may take, which the heap is charged to as well;
  // null: none.
  std::shared_ptr<base::Confinement> outer;
  std::shared_ptr<const CancelFlag> cancel;  // null: nobody can
  int each = 0;                              // instructions between two counts
  int64_t counted = 0;                       // of this run
  unsigned counts = 0;                       // how often it was counted
  int64_t collect_at = 0;                    // bytes charged
  bool has_deadline = false;                 // whether runs have one
  Clock::time_point deadline = kNever;       // of this run
  bool passed_deadline = false;              // this run was ended by it
  bool outer_is_full = false;  // the heap was refused bytes by `outer`, not by the confinement

  bool Any() const {
    return instructions > 0 || cancel != nullptr || has_deadline ||
           (confinement != nullptr && confinement->memory() > 0);
  }
};

// A state whose heap is charged to the confinement, and to `outer`; null where there is no memory
// for it. `limits` must outlive it.
lua_State* NewState(Limits& limits);

// Instructions between two counts; what CountCaught counts.
inline constexpr int kCountEach = 1000;

// An error was caught: counts it, and raises the next one where it is too much.
void CountCaught(lua_State* L);

// Where memory is limited: lets go of what a run left, so that the next one has room to begin.
void CollectAfterRun(lua_State* L, const Limits& limits);

// Counts from zero, for a run that begins. `limits` must outlive the state.
void Watch(lua_State* L, Limits* limits);

// A cancelled run's state counts on, its instructions so far among them: what comes next may run.
void CountOn(lua_State* L, const Limits& limits);

// What the error of a cancelled run says.
inline constexpr char kCancelled[] = "CANCELLED: the run was cancelled";

}  // namespace moonring::lua

#endif  // MOONRING_LUA_LIMITS_H_
