#ifndef MOONRING_LUA_VM_LIMITS_H_
#define MOONRING_LUA_VM_LIMITS_H_

// Limits that stop a script that does not end by itself: number of instructions, deadline, memory,
// and cancellation by another thread.
//
//   instructions  Counted by LuaJIT's count hook, which is called after every 1,000. LuaJIT does
//                 not call the hook from compiled code, so a state with limits must use the
//                 interpreter. Beyond the limit, every further instruction raises the error once
//                 more, so neither pcall nor a coroutine can continue. A call into C is one
//                 instruction, however long it takes (a forward pass). In a search for a Lua
//                 pattern, which could take forever, each step of the search counts
//                 (lua/vm/counted_search.h). When the Lua stack is full, LuaJIT has no room to call
//                 the hook; a script can continue there only by catching the stack overflow error,
//                 so each caught error also counts as 1,000 (lua/moonring/sandbox/init.lua).
//   deadline      Checked when the hook runs, and enforced in the same way. A call into C is not
//                 interrupted.
//   memory        The limit of base::Confinement, which all memory is charged to. The state's
//                 allocator charges Lua's heap to it; near the limit garbage is collected first.
//                 Heap memory that operators use in addition to tensors' bytes is checked when the
//                 hook runs, and between operators (lua/binding/tensor.h).
//   cancelling    Checked when the hook runs.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <lua.hpp>

#include "base/files/confinement.h"

namespace moonring::lua {

// A request to end the running script. Any thread can make it.
enum class Cancel : int {
  kNone,
  kAtStep,  // at the next step boundary, after a checkpoint: for scripts that check for it
            // (run.preempted)
  kNow,
  kThisCall,  // as kNow, but only until the call into the runtime returns (moonring_interrupt)
};
inline bool EndsNow(Cancel cancel) { return cancel == Cancel::kNow || cancel == Cancel::kThisCall; }
using CancelFlag = std::atomic<Cancel>;

struct Limits {
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  int64_t instructions = 0;                        // most instructions in one run; 0: no limit
  std::shared_ptr<base::Confinement> confinement;  // limits on memory and files; null: none
  // The limits of the Lua state that created this one; the heap is charged to them too. Null for a
  // state that no other state created.
  std::shared_ptr<base::Confinement> outer;
  std::shared_ptr<const CancelFlag> cancel;  // null: cannot be cancelled
  int each = 0;                              // instructions between two hook calls
  int64_t counted = 0;                       // instructions counted in this run
  unsigned counts = 0;                       // number of hook calls
  int64_t collect_at = 0;               // garbage is collected when this many bytes are charged
  bool has_deadline = false;            // whether runs have a deadline
  Clock::time_point deadline = kNever;  // deadline of this run
  bool passed_deadline = false;         // whether the deadline ended this run
  bool outer_is_full = false;  // an allocation was refused by `outer`, not by the confinement

  bool Any() const {
    return instructions > 0 || cancel != nullptr || has_deadline ||
           (confinement != nullptr && confinement->memory() > 0);
  }
};

// Creates a Lua state whose heap is charged to limits.confinement and limits.outer; null if there
// is no memory for it. `limits` must outlive the state.
lua_State* NewState(Limits& limits);

// Instructions between two calls of the counting hook; also the number that CountCaught adds.
inline constexpr int kCountEach = 1000;

// Adds kCountEach to the instruction count, because a script caught an error. Raises the limit's
// error if the count exceeds the limit.
void CountCaught(lua_State* L);

// If memory is limited, collects the garbage that a run left, so that the next run has room.
void CollectAfterRun(lua_State* L, const Limits& limits);

// Installs the counting hook for a new run, and starts counting from zero. `limits` must outlive
// the state.
void Watch(lua_State* L, Limits* limits);

// Restores the counting hook after an interrupted run without resetting the count, so that the
// state can run further code.
void CountOn(lua_State* L, const Limits& limits);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_LIMITS_H_
