#include "lua/vm/limits.h"

#include <algorithm>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lua/binding/error_value.h"

namespace moonring::lua {
namespace {

const char kLimits = 0;        // its address is the registry key
constexpr int kLookEach = 32;  // hook calls between two checks of malloc's heap, which take 10 us
                               // each

// Charges `more` bytes (negative: releases bytes) to both memory limits, or to neither.
bool Charge(Limits& limits, int64_t more) {
  if (!limits.confinement->Charge(more)) return false;
  if (limits.outer == nullptr || limits.outer->Charge(more)) return true;
  limits.confinement->Release(more);
  limits.outer_is_full = true;
  return false;
}

void Release(Limits& limits, int64_t bytes) {
  limits.confinement->Release(bytes);
  if (limits.outer != nullptr) limits.outer->Release(bytes);
}

// The lua_Alloc function of a state with limits; `of` is its Limits. Shrinking a block must never
// fail.
void* Allocate(void* of, void* block, size_t before, size_t after) {
  auto& limits = *static_cast<Limits*>(of);
  const int64_t more =
      static_cast<int64_t>(after) - static_cast<int64_t>(block == nullptr ? 0 : before);
  if (after == 0) {
    std::free(block);
    Release(limits, -more);
    return nullptr;
  }
  if (!Charge(limits, more)) return nullptr;
  void* const moved = std::realloc(block, after);
  if (moved == nullptr) Release(limits, more);
  return moved;
}

// Returns the limits of a Lua state; null if it has none.
Limits* LimitsOf(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kLimits));
  lua_rawget(L, LUA_REGISTRYINDEX);
  auto* limits = static_cast<Limits*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return limits;
}

// Returns the number of bytes that may be used: the state's own limit, or the rest of
// `outer`'s.
int64_t MostOf(const Limits& limits) {
  const int64_t own = limits.confinement->memory();
  if (limits.outer == nullptr || limits.outer->memory() == 0) return own;
  const int64_t others = limits.outer->charged() - limits.confinement->charged();
  return std::min(own, limits.outer->memory() - others);
}

// Collects garbage when the memory in use approaches the limit, so that unused objects do not
// exhaust it. If live objects are near the limit, the next collection comes half way to the limit.
void CollectNearTheLimit(lua_State* L, Limits& limits) {
  if (limits.collect_at == 0) return;
  if (++limits.counts % kLookEach == 0) limits.confinement->CountHeap();
  if (limits.confinement->charged() < limits.collect_at) return;
  lua_gc(L, LUA_GCCOLLECT, 0);
  limits.confinement->CountHeap();
  const int64_t most = MostOf(limits);
  limits.collect_at = std::max(most / 4 * 3, (limits.confinement->charged() + most) / 2);
}

void CountInstructions(lua_State* L, lua_Debug*) {
  if (LimitsOf(L) == nullptr) return;
  Limits& limits = *LimitsOf(L);
  const bool cancelled =
      limits.cancel != nullptr && EndsNow(limits.cancel->load(std::memory_order_relaxed));
  limits.counted += limits.each;
  const bool over = limits.instructions > 0 && limits.counted > limits.instructions;
  const bool late = limits.deadline != Limits::kNever && Limits::Clock::now() > limits.deadline;
  if (!cancelled && !over && !late) return CollectNearTheLimit(L, limits);
  // After the error the hook runs at every instruction and raises the error again, so that a script
  // that catches the error cannot continue.
  lua_sethook(L, &CountInstructions, LUA_MASKCOUNT, 1);
  if (late && !cancelled) limits.passed_deadline = true;
  PushError(L, cancelled ? ErrorValue{absl::StatusCode::kCancelled, "the run was cancelled"}
               : late    ? ErrorValue{absl::StatusCode::kDeadlineExceeded,
                                   "the call took longer than it may"}
                         : ErrorValue{absl::StatusCode::kResourceExhausted,
                                   absl::StrCat("--sandbox-instructions: the script took more "
                                                      "than ",
                                                   limits.instructions)});
  lua_error(L);
}

}  // namespace

lua_State* NewState(Limits& limits) {
  if (limits.confinement == nullptr || limits.confinement->memory() == 0) return luaL_newstate();
  return lua_newstate(&Allocate, &limits);
}

void CountCaught(lua_State* L) { CountInstructions(L, nullptr); }

void CollectAfterRun(lua_State* L, const Limits& limits) {
  if (limits.confinement == nullptr || limits.confinement->memory() == 0) return;
  for (int64_t before = limits.confinement->charged() + 1;
       limits.confinement->charged() < before;) {  // each collection halves LuaJIT's string buffer
    before = limits.confinement->charged();
    lua_gc(L, LUA_GCCOLLECT, 0);
  }
}

void CountOn(lua_State* L, const Limits& limits) {
  if (limits.each > 0) lua_sethook(L, &CountInstructions, LUA_MASKCOUNT, limits.each);
}

void Watch(lua_State* L, Limits* limits) {
  if (!limits->Any()) return;
  lua_pushlightuserdata(L, const_cast<char*>(&kLimits));
  lua_pushlightuserdata(L, limits);
  lua_rawset(L, LUA_REGISTRYINDEX);
  limits->counted = 0;
  limits->passed_deadline = limits->outer_is_full = false;
  if (limits->confinement != nullptr && limits->confinement->memory() > 0) {
    limits->confinement->CountHeap();
    limits->collect_at = std::max<int64_t>(1, MostOf(*limits) / 4 * 3);
    // Runs full collections, each time when the heap has grown by half. Incremental collections
    // would be too slow for strings of megabytes.
    lua_gc(L, LUA_GCSETPAUSE, 150);
    lua_gc(L, LUA_GCSETSTEPMUL, 0);
  }
  limits->each = limits->instructions > 0
                     ? static_cast<int>(std::min<int64_t>(kCountEach, limits->instructions))
                     : kCountEach;
  lua_sethook(L, &CountInstructions, LUA_MASKCOUNT, limits->each);
}

}  // namespace moonring::lua
