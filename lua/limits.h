#ifndef MOONRING_LUA_LIMITS_H_
#define MOONRING_LUA_LIMITS_H_

// Limits that stop a script that does not end by itself: number of instructions, deadline, memory,
// and cancellation by another thread.
//
//   instructions  Counted by LuaJIT's hook, 1,000 at a time. LuaJIT calls no hook from compiled
//                 code, so a state with limits must use the interpreter. Beyond the limit, every
//                 further instruction raises the error once more, so neither pcall nor a coroutine
//                 can continue. A call into C is one instruction, however long it takes (a forward
//                 pass); in patterns that could take forever each step counts
//                 (lua/counted_search.h). When the Lua stack is full, LuaJIT has no room to call
//                 the hook; to continue there, a script must catch the stack overflow error, so
//                 each caught error also counts as 1,000 (lua/moonring/sandbox/init.lua).
//   deadline      Checked when instructions are counted, and enforced in the same way. A call into
//                 C is not interrupted.
//   memory        The confinement's limit. The state's allocator charges Lua's heap to it; near the
//                 limit garbage is collected first. Heap memory that operators use in addition to
//                 tensors' bytes is checked when instructions are counted, and between operators
//                 (lua/binding/tensor.h).
//   cancelling    Checked when instructions are counted.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <lua.hpp>

#include "base/files/confinement.h"

namespace moonring::lua {

// A request to end, which any thread can make.
enum class Cancel : int {
  kNone,
  kAtStep,  // at the next step boundary, after a checkpoint: for scripts that check for it
            // (run.preempted)
  kNow,
};
using CancelFlag = std::atomic<Cancel>;

struct Limits {
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  int64_t instructions = 0;                        // limit for one run; 0: none
  std::shared_ptr<base::Confinement> confinement;  // null: none
  // For a state created by another one: its creator's memory limit, to which the heap is charged
  // too; null: none.
  std::shared_ptr<base::Confinement> outer;
  std::shared_ptr<const CancelFlag> cancel;  // null: cannot be cancelled
  int each = 0;                              // instructions between two hook calls
  int64_t counted = 0;                       // in this run
  unsigned counts = 0;                       // number of hook calls
  int64_t collect_at = 0;                    // bytes charged at which garbage is collected
  bool has_deadline = false;                 // whether runs have one
  Clock::time_point deadline = kNever;       // of this run
  bool passed_deadline = false;              // this run was ended by it
  bool outer_is_full = false;  // an allocation was refused by `outer`, not by the confinement

  bool Any() const {
    return instructions > 0 || cancel != nullptr || has_deadline ||
           (confinement != nullptr && confinement->memory() > 0);
  }
};

// Creates a state whose heap is charged to the confinement and to `outer`; null if there is no
// memory for it. `limits` must outlive it.
lua_State* NewState(Limits& limits);

// Instructions between two hook calls, and the number that CountCaught adds.
inline constexpr int kCountEach = 1000;

// Counts a caught error; raises the limit's error if this exceeds it.
void CountCaught(lua_State* L);

// If memory is limited, frees what a run left, so that the next one has room.
void CollectAfterRun(lua_State* L, const Limits& limits);

// Starts counting from zero, for a new run. `limits` must outlive the state.
void Watch(lua_State* L, Limits* limits);

// After an interrupted run, restores the normal counting hook without resetting the count, so that
// the state can run further code.
void CountOn(lua_State* L, const Limits& limits);

// The error message of a cancelled run.
inline constexpr char kCancelled[] = "CANCELLED: the run was cancelled";

}  // namespace moonring::lua

#endif  // MOONRING_LUA_LIMITS_H_
