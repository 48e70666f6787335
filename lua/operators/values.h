#ifndef MOONRING_LUA_OPERATORS_VALUES_H_
#define MOONRING_LUA_OPERATORS_VALUES_H_

// Conversion between Lua values and an operator's arguments and results (c10::IValue).
//
//   Lua                              argument
//   Tensor                           Tensor
//   a whole number                   int, float, Scalar (as an integer)
//   any other number                 float, Scalar
//   cdata: 2LL, ffi.new("double")    int; float and Scalar (ffi.new("double", 2) as a float)
//   boolean                          bool, Scalar
//   string                           str, ScalarType ("fp32"), Device ("cpu"), Layout
//                                    ("strided"), MemoryFormat ("contiguous_format"); for an int
//                                    named `reduction`: "none", "mean", "sum"
//   a list                           a list; also a single number if the schema allows it (int[1])
//   a whole number                   Generator: a new one with that seed
//   nil                              None, if the argument is optional

#include <string>

#include <ATen/core/ivalue.h>

#include <lua.hpp>

#include "lua/operators/schemas.h"

namespace moonring::lua {

enum class Fit {
  kNo,
  kConverted,  // a number that must be converted to a tensor
  kExact,
};

// Registers the Lua function that reads cdata. Call it once for each state, before the sandbox
// removes ffi.
void OpenValues(lua_State* L);

// Whether, and how, the non-nil value at `index` can be converted to this argument.
Fit FitOf(lua_State* L, int index, const ArgumentRule& rule);

// Converts the value at `index` to this argument, after FitOf has accepted it. Throws for a closed
// tensor.
c10::IValue ReadArgument(lua_State* L, int index, const ArgumentRule& rule);

// Pushes one result. A list becomes a table; None and an undefined tensor become nil; a complex
// number becomes a table { real, imaginary }.
void PushResult(lua_State* L, const c10::IValue& value);

// Describes an actual value for messages: "Tensor fp32 [2, 3]", "string 'x'", "number 2".
std::string DescribeValue(lua_State* L, int index);

// Describes the expected type for messages: "a list of ints", "Tensor or nil".
std::string DescribeRule(const ArgumentRule& rule);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_VALUES_H_
