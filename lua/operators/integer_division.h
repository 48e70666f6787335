#ifndef MOONRING_LUA_OPERATORS_INTEGER_DIVISION_H_
#define MOONRING_LUA_OPERATORS_INTEGER_DIVISION_H_

// Detects integer divisions that crash the process. The quotient of the smallest int32 or int64 and
// -1 is out of range. LibTorch's CPU kernels execute truncating division of these numbers anyway,
// and x86 then ends the process with SIGFPE. No check is needed for division by zero and for
// remainders, which the kernels handle, nor for int8 and int16, which are computed in int32 and
// cannot overflow.

#include <ATen/core/stack.h>

#include "lua/operators/schemas.h"

namespace moonring::lua {

// For an operator with integer quotients: throws a c10::ValueError if an element of the dividend,
// in the promoted dtype, is the smallest integer and the corresponding divisor is -1. Only checks
// int32 and int64 on the CPU. Costs one comparison of the divisor's elements, in addition to the
// division.
void CheckDivision(const Overload& overload, const torch::jit::Stack& arguments);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_INTEGER_DIVISION_H_
