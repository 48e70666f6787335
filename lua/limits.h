#ifndef MOONRING_LUA_LIMITS_H_
#define MOONRING_LUA_LIMITS_H_

// What stops a script that does not stop by itself: a number of instructions, bytes of memory, the
// wish of another thread.
//
//   instructions  counted by LuaJIT's hook, 1,000 at a time. LuaJIT calls no hook from compiled
//   code, so a state that is watched must interpret. Once over, every
//                 further instruction raises the error again: neither pcall nor a coroutine goes
//                 on. One call into C is one instruction, however long it takes (a forward pass);
//                 patterns that could take for ever are matched in Lua (lua/moonring/patterns.lua).
//                 At the bottom of a stack that is full LuaJIT has no room to call the hook; what
//                 it raises instead must be caught for a script to go on there, so each error that
//                 is caught counts 1,000 too (lua/moonring/sandbox.lua).
//   memory        the confinement's: Lua's heap is charged to it by the state's allocator; where it
//   nears the limit, garbage is collected first cancelling    seen where instructions are counted

#include <atomic>
#include <cstdint>
#include <memory>

#include <lua.hpp>

#include "comm/files/confinement.h"

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
  int64_t instructions = 0;                        // of one run; 0: any number
  std::shared_ptr<comm::Confinement> confinement;  // null: none
  std::shared_ptr<const CancelFlag> cancel;        // null: nobody can
  int each = 0;                                    // instructions between two counts
  int64_t counted = 0;                             // of this run
  int64_t collect_at = 0;                          // bytes charged

  bool Any() const {
    return instructions > 0 || cancel != nullptr ||
           (confinement != nullptr && confinement->memory() > 0);
  }
};

// A state whose heap is charged to the confinement; null where there is no memory for it.
lua_State* NewState(comm::Confinement* confinement);

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
