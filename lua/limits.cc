#include "lua/limits.h"

#include <algorithm>
#include <cstdlib>

namespace moonring::lua {
namespace {

constexpr int kCountEach = 1000;

const char kLimits = 0;  // its address is the registry key

// lua_Alloc, charging `confinement`. A block that gets smaller must never fail.
void* Allocate(void* confinement, void* block, size_t before, size_t after) {
  auto& charged = *static_cast<comm::Confinement*>(confinement);
  const int64_t more =
      static_cast<int64_t>(after) - static_cast<int64_t>(block == nullptr ? 0 : before);
  if (after == 0) {
    std::free(block);
    charged.Release(-more);
    return nullptr;
  }
  if (!charged.Charge(more)) return nullptr;
  void* const moved = std::realloc(block, after);
  if (moved == nullptr) charged.Release(more);
  return moved;
}

// Null where the state is not watched.
Limits* LimitsOf(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kLimits));
  lua_rawget(L, LUA_REGISTRYINDEX);
  auto* limits = static_cast<Limits*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return limits;
}

// A state that is out of memory for its garbage is not out of memory. Where what lives is near the
// limit, the next collection is half way to it.
void CollectNearTheLimit(lua_State* L, Limits& limits) {
  if (limits.collect_at == 0 || limits.confinement->charged() < limits.collect_at) return;
  lua_gc(L, LUA_GCCOLLECT, 0);
  const int64_t most = limits.confinement->memory();
  limits.collect_at = std::max(most / 4 * 3, (limits.confinement->charged() + most) / 2);
}

void Count(lua_State* L, lua_Debug*) {
  if (LimitsOf(L) == nullptr) return;
  Limits& limits = *LimitsOf(L);
  const bool cancelled =
      limits.cancel != nullptr && limits.cancel->load(std::memory_order_relaxed) == Cancel::kNow;
  limits.counted += limits.each;
  const bool over = limits.instructions > 0 && limits.counted > limits.instructions;
  if (!cancelled && !over) return CollectNearTheLimit(L, limits);
  lua_sethook(L, &Count, LUA_MASKCOUNT, 1);  // a script that catches this goes no further
  if (cancelled) {
    lua_pushstring(L, kCancelled);
  } else {
    lua_pushfstring(L, "RESOURCE_EXHAUSTED: --sandbox-instructions: the script took more than %f",
                    static_cast<double>(limits.instructions));
  }
  lua_error(L);
}

}  // namespace

lua_State* NewState(comm::Confinement* confinement) {
  if (confinement == nullptr || confinement->memory() == 0) return luaL_newstate();
  return lua_newstate(&Allocate, confinement);
}

void CountCaught(lua_State* L) { Count(L, nullptr); }

void CollectAfterRun(lua_State* L, const Limits& limits) {
  if (limits.confinement == nullptr || limits.confinement->memory() == 0) return;
  for (int64_t before = limits.confinement->charged() + 1;
       limits.confinement->charged() < before;) {  // each time LuaJIT's buffer is halved too
    before = limits.confinement->charged();
    lua_gc(L, LUA_GCCOLLECT, 0);
  }
}

void CountOn(lua_State* L, const Limits& limits) {
  if (limits.each > 0) lua_sethook(L, &Count, LUA_MASKCOUNT, limits.each);
}

void Watch(lua_State* L, Limits* limits) {
  if (!limits->Any()) return;
  lua_pushlightuserdata(L, const_cast<char*>(&kLimits));
  lua_pushlightuserdata(L, limits);
  lua_rawset(L, LUA_REGISTRYINDEX);
  limits->counted = 0;
  if (limits->confinement != nullptr && limits->confinement->memory() > 0) {
    limits->collect_at = limits->confinement->memory() / 4 * 3;
    // Whole collections, each time the heap is half as large again: one in small steps lags behind
    // strings of megabytes.
    lua_gc(L, LUA_GCSETPAUSE, 150);
    lua_gc(L, LUA_GCSETSTEPMUL, 0);
  }
  limits->each = limits->instructions > 0
                     ? static_cast<int>(std::min<int64_t>(kCountEach, limits->instructions))
                     : kCountEach;
  lua_sethook(L, &Count, LUA_MASKCOUNT, limits->each);
}

}  // namespace moonring::lua
