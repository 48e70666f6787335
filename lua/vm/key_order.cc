#include "lua/vm/key_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "lua/vm/limits.h"

namespace moonring::lua {
namespace {

// Steps of comparison that take as long as one instruction of the interpreter.
constexpr int64_t kBytesAStep = 64;

enum class Kind : uint8_t { kPositive, kNumber, kText, kBoolean, kOther };

// A key of a table. A text is valid while its string is in the table.
struct OrderedKey {
  Kind kind = Kind::kOther;
  int place = 0;  // in the list of keys, from 1
  double number = 0;
  const char* text = nullptr;
  size_t size = 0;
};

OrderedKey KeyAt(lua_State* L, int index) {
  OrderedKey key;
  switch (lua_type(L, index)) {
    case LUA_TNUMBER:
      key.number = lua_tonumber(L, index);
      key.kind = key.number >= 1 && key.number == std::floor(key.number) ? Kind::kPositive
                                                                         : Kind::kNumber;
      break;
    case LUA_TSTRING:
      key.kind = Kind::kText;
      key.text = lua_tolstring(L, index, &key.size);
      break;
    case LUA_TBOOLEAN:
      key.kind = Kind::kBoolean;
      key.number = lua_toboolean(L, index);
      break;
    default:
      break;
  }
  return key;
}

bool IsBefore(const OrderedKey& a, const OrderedKey& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  if (a.kind == Kind::kOther) return a.place < b.place;
  if (a.kind != Kind::kText) return a.number < b.number;
  const int order = std::memcmp(a.text, b.text, std::min(a.size, b.size));
  return order != 0 ? order < 0 : a.size < b.size;
}

// Counts work that LuaJIT does not count, because it is done within one call.
class Steps {
 public:
  explicit Steps(lua_State* L) : L_(L) {}
  void Count(int64_t steps) {
    for (steps_ += steps; steps_ >= kCountEach; steps_ -= kCountEach) CountCaught(L_);
  }
  void CountComparison(const OrderedKey& a, const OrderedKey& b) {
    Count(1 + static_cast<int64_t>(std::min(a.size, b.size)) / kBytesAStep);
  }

 private:
  lua_State* const L_;
  int64_t steps_ = 0;
};

// The Lua function sorted_keys(table, after): the list of the keys that come after the key `after`
// (nil: of all keys), in order.
int SortedKeys(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  const bool all = lua_isnil(L, 2);
  const OrderedKey after = KeyAt(L, 2);
  const bool after_other = !all && after.kind == Kind::kOther;
  Steps steps(L);
  lua_newtable(L);  // at 3: the keys, unordered
  // The other keys are in LuaJIT's order, so those after one of them follow it in a traversal.
  if (after_other) lua_pushvalue(L, 2);
  if (!after_other) lua_pushnil(L);
  int count = 0;
  for (; lua_next(L, 1) != 0; lua_pop(L, 1)) {
    steps.Count(1);
    const OrderedKey key = KeyAt(L, -2);
    if (after_other && key.kind != Kind::kOther) continue;
    if (!all && !after_other && !IsBefore(after, key)) continue;
    lua_pushvalue(L, -2);
    lua_rawseti(L, 3, ++count);
  }
  // Memory of Lua's, so that an error frees it and limits count it.
  auto* const keys = static_cast<OrderedKey*>(
      lua_newuserdata(L, std::max<size_t>(1, count) * sizeof(OrderedKey)));  // at 4
  for (int i = 0; i < count; ++i) {
    lua_rawgeti(L, 3, i + 1);
    keys[i] = KeyAt(L, -1);
    keys[i].place = i + 1;
    lua_pop(L, 1);
  }
  std::sort(keys, keys + count, [&](const OrderedKey& a, const OrderedKey& b) {
    steps.CountComparison(a, b);
    return IsBefore(a, b);
  });
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; ++i) {
    lua_rawgeti(L, 3, keys[i].place);
    lua_rawseti(L, 5, i + 1);
  }
  return 1;
}

// The Lua function first_key(table): its first key in order; nil for an empty table.
int FirstKey(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  Steps steps(L);
  lua_pushnil(L);  // at 2: the first key so far
  OrderedKey first;
  bool found = false;
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
    const OrderedKey key = KeyAt(L, -2);
    steps.CountComparison(key, first);
    if (found && !IsBefore(key, first)) continue;
    found = true;
    first = key;
    lua_pushvalue(L, -2);
    lua_replace(L, 2);
  }
  lua_settop(L, 2);
  return 1;
}

}  // namespace

void InstallKeyOrder(lua_State* L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonring.base.key_order");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "install");
  lua_pushcfunction(L, &SortedKeys);
  lua_pushcfunction(L, &FirstKey);
  lua_call(L, 2, 0);
  lua_pop(L, 1);
}

}  // namespace moonring::lua
