#ifndef MOONRING_LUA_BINDING_PLAIN_VALUE_H_
#define MOONRING_LUA_BINDING_PLAIN_VALUE_H_

// A Lua value outside of any Lua state, used to copy it from one state to another: nil, null, a
// boolean, a number, a string (any bytes), or a table of these.
//
// Tables are not copied as JSON text, because JSON can represent neither NaN, nor lists with holes,
// nor bytes that are not UTF-8, and takes several times as long. A list of numbers is stored as an
// array of doubles, 8 bytes each.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <lua.hpp>

namespace moonring::lua {

struct PlainTable;
struct PlainNull {};

// std::monostate represents nil.
using PlainValue =
    std::variant<std::monostate, PlainNull, bool, double, std::string, std::unique_ptr<PlainTable>>;

struct PlainTable {
  std::vector<double> numbers;                            // the list part, if all its items are
                                                          // numbers
  std::vector<PlainValue> items;                          // else the list part
  std::vector<std::pair<PlainValue, PlainValue>> fields;  // entries whose keys are not list indices
};

// Copies the value at the absolute stack position `index`, with nested tables; metatables are
// ignored. Throws INVALID_ARGUMENT for a function, a handle, a coroutine, a table nested a hundred
// levels deep or containing itself, and RESOURCE_EXHAUSTED if the memory limit leaves no room for
// the copy.
PlainValue ReadPlain(lua_State* L, int index);

void PushPlain(lua_State* L, const PlainValue& value);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_PLAIN_VALUE_H_
