#include "lua/binding/plain_value.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/torch_status.h"
#include "lua/binding/json.h"

namespace moonring::lua {
namespace {

constexpr int kDeepest = 100;

PlainValue ReadPlainValue(lua_State* L, int index, int depth, base::ChargedBytes& room);

// If the first `size` items are all numbers, reads them and returns true.
bool ReadNumbers(lua_State* L, int index, size_t size, std::vector<double>& numbers) {
  numbers.reserve(size);
  for (size_t i = 1; i <= size; ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    const bool is_number = lua_type(L, -1) == LUA_TNUMBER;
    if (is_number) numbers.push_back(lua_tonumber(L, -1));
    lua_pop(L, 1);
    if (!is_number) {
      numbers = {};
      return false;
    }
  }
  return true;
}

// Whether the key at `index` is one of the list's indices, 1 .. size.
bool IsPlace(lua_State* L, int index, size_t size) {
  if (lua_type(L, index) != LUA_TNUMBER) return false;
  const double key = lua_tonumber(L, index);
  return IsWhole(key) && key >= 1 && key <= static_cast<double>(size);
}

std::unique_ptr<PlainTable> ReadTable(lua_State* L, int index, int depth,
                                      base::ChargedBytes& room) {
  if (depth > kDeepest) {
    throw base::StatusError(
        absl::InvalidArgumentError("a table that is nested too deeply or contains itself"));
  }
  auto table = std::make_unique<PlainTable>();
  const size_t size = lua_objlen(L, index);
  base::ThrowIfError(
      room.Add(static_cast<int64_t>(sizeof(PlainTable) + size * sizeof(double)), "copied values"));
  if (!ReadNumbers(L, index, size, table->numbers)) {
    base::ThrowIfError(room.Add(static_cast<int64_t>(size * sizeof(PlainValue)), "copied values"));
    table->items.reserve(size);
    for (size_t i = 1; i <= size; ++i) {
      lua_rawgeti(L, index, static_cast<int>(i));
      table->items.push_back(ReadPlainValue(L, lua_gettop(L), depth + 1, room));
      lua_pop(L, 1);
    }
  }
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    const int value = lua_gettop(L), key = value - 1;
    if (IsPlace(L, key, size)) continue;
    base::ThrowIfError(room.Add(2 * sizeof(PlainValue), "copied values"));
    PlainValue name = ReadPlainValue(L, key, depth + 1, room);
    table->fields.emplace_back(std::move(name), ReadPlainValue(L, value, depth + 1, room));
  }
  return table;
}

PlainValue ReadPlainValue(lua_State* L, int index, int depth, base::ChargedBytes& room) {
  if (lua_checkstack(L, 8) == 0)
    throw base::StatusError(absl::ResourceExhaustedError("Lua's stack is full"));
  switch (lua_type(L, index)) {
    case LUA_TNIL:
    case LUA_TNONE:
      return std::monostate();
    case LUA_TBOOLEAN:
      return lua_toboolean(L, index) != 0;
    case LUA_TNUMBER:
      return lua_tonumber(L, index);
    case LUA_TSTRING: {
      size_t size = 0;
      const char* const text = lua_tolstring(L, index, &size);
      base::ThrowIfError(room.Add(static_cast<int64_t>(size), "copied values"));
      return std::string(text, size);
    }
    case LUA_TTABLE:
      return ReadTable(L, index, depth, room);
    default:
      if (IsNull(L, index)) return PlainNull();
      throw base::StatusError(absl::InvalidArgumentError(
          absl::StrCat("a ", luaL_typename(L, index), " cannot be handed to another Lua state")));
  }
}

void PushTable(lua_State* L, const PlainTable& table) {
  const size_t size = table.numbers.size() + table.items.size();
  lua_createtable(L, static_cast<int>(size), static_cast<int>(table.fields.size()));
  for (size_t i = 0; i < table.numbers.size(); ++i) {
    lua_pushnumber(L, table.numbers[i]);
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  for (size_t i = 0; i < table.items.size(); ++i) {
    PushPlain(L, table.items[i]);
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  for (const auto& [key, value] : table.fields) {
    PushPlain(L, key);
    PushPlain(L, value);
    lua_rawset(L, -3);
  }
}

}  // namespace

PlainValue ReadPlain(lua_State* L, int index) {
  base::ChargedBytes room;
  return ReadPlainValue(L, index, 0, room);
}

void PushPlain(lua_State* L, const PlainValue& value) {
  luaL_checkstack(L, 8, "values nested too deeply");
  if (const auto* const yes = std::get_if<bool>(&value)) {
    lua_pushboolean(L, *yes);
  } else if (const auto* const number = std::get_if<double>(&value)) {
    lua_pushnumber(L, *number);
  } else if (const auto* const text = std::get_if<std::string>(&value)) {
    lua_pushlstring(L, text->data(), text->size());
  } else if (const auto* const table = std::get_if<std::unique_ptr<PlainTable>>(&value)) {
    PushTable(L, **table);
  } else if (std::holds_alternative<PlainNull>(value)) {
    PushNull(L);
  } else {
    lua_pushnil(L);
  }
}

}  // namespace moonring::lua
