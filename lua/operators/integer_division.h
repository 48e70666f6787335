#ifndef MOONRING_LUA_OPERATORS_INTEGER_DIVISION_H_
#define MOONRING_LUA_OPERATORS_INTEGER_DIVISION_H_

// Divisions of integers that the processor cannot do. The quotient of the least int32 or int64 and
// -1 is one more than the greatest; LibTorch's kernels on the CPU divide all the same where they
// truncate, and x86 ends the process then (SIGFPE). The kernels themselves refuse a division by
// zero and handle remainders; int8 and int16 are computed in int32 and cannot overflow.

#include <ATen/core/stack.h>

#include "lua/operators/schemas.h"

namespace moonring::lua {

// For a call that gives whole quotients: throws a c10::ValueError where an element of the dividend,
// in the dtype that both are computed in, is the least integer, and the divisor's at its place -1.
// Nothing is looked at but int32 and int64 on the CPU; beside the division itself it costs one
// comparison with the divisor.
void CheckDivision(const Overload& overload, const torch::jit::Stack& arguments);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_INTEGER_DIVISION_H_
