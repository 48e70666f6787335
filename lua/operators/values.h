#ifndef MOONRING_LUA_OPERATORS_VALUES_H_
#define MOONRING_LUA_OPERATORS_VALUES_H_

// Values between Lua's stack and an operator's arguments and results (c10::IValue).
//
//   Lua                              argument
//   Tensor                           Tensor
//   a whole number                   int, float, Scalar (an integer one)
//   any other number                 float, Scalar
//   cdata: 2LL, ffi.new("double")    int; float and Scalar (ffi.new("double", 2) is a float one)
//   boolean                          bool, Scalar
//   string                           str, ScalarType ("fp32"), Device ("cpu"), Layout
//                                    ("strided"), MemoryFormat ("contiguous_format"); of an int
//                                    named `reduction`: "none", "mean", "sum"
//   a list                           a list; a number alone where the schema says so (int[1])
//   a whole number                   Generator: a new one with that seed
//   nil                              None, where the argument is optional

#include <string>

#include <ATen/core/ivalue.h>

#include <lua.hpp>

#include "lua/operators/schemas.h"

namespace moonring::lua {

enum class Fit {
  kNo,
  kConverted,  // a number where a tensor is wanted
  kExact,
};

// Registers what reads cdata. Once a state, while it still has ffi.
void OpenValues(lua_State* L);

// Whether the value at `index`, which is not nil, can be this argument.
Fit FitOf(lua_State* L, int index, const ArgumentRule& rule);

// The value as that argument, after FitOf said that it can be. Throws where a tensor is closed.
c10::IValue ReadArgument(lua_State* L, int index, const ArgumentRule& rule);

// Pushes one value. A list becomes a table, None and an undefined tensor nil, a complex number
// { real, imaginary }.
void PushResult(lua_State* L, const c10::IValue& value);

// What came, for messages: "Tensor fp32 [2, 3]", "string 'x'", "number 2".
std::string DescribeValue(lua_State* L, int index);

// What is wanted, for messages: "a list of ints", "Tensor or nil".
std::string DescribeRule(const ArgumentRule& rule);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_VALUES_H_
