#ifndef MOONRING_LUA_BINDING_PLAIN_VALUE_H_
#define MOONRING_LUA_BINDING_PLAIN_VALUE_H_

// A value of Lua outside of any state, by which one state hands it to another: nil, null, a
// boolean, a number, a string (any bytes), or a table of such.
//
// Not by way of JSON, which has no NaN, no holes in a list and no bytes that are not UTF-8, and
// takes several times as long: a list of numbers is kept as such, 8 bytes each.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <lua.hpp>

namespace moonring::lua {

struct PlainTable;
struct PlainNull {};

// std::monostate is nil.
using PlainValue =
    std::variant<std::monostate, PlainNull, bool, double, std::string, std::unique_ptr<PlainTable>>;

struct PlainTable {
  std::vector<double> numbers;                            // the list, where all of it is numbers
  std::vector<PlainValue> items;                          // else the list
  std::vector<std::pair<PlainValue, PlainValue>> fields;  // what has another key
};

// The value at `index`, a place from the bottom, and all below it; metatables are not looked at.
// Throws INVALID_ARGUMENT for a function, a handle, a coroutine, a table that is nested a hundred
// times or holds itself, RESOURCE_EXHAUSTED where the confinement has no room for the copy.
PlainValue ReadPlain(lua_State* L, int index);

void PushPlain(lua_State* L, const PlainValue& value);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_PLAIN_VALUE_H_
