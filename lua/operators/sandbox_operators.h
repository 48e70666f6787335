#ifndef MOONRING_LUA_OPERATORS_SANDBOX_OPERATORS_H_
#define MOONRING_LUA_OPERATORS_SANDBOX_OPERATORS_H_

// The operators that a script may call under --sandbox: public ones that check what they are given,
// so that no call of theirs ends the process. Not among them: names that begin with an underscore,
// what reads files (from_file), lays a tensor over another one's storage (set_, as_strided,
// resize_), leaves memory unwritten (empty), quantises, is sparse, or calls a library that trusts
// its caller (convolutions, recurrent cells, LAPACK's rarer routines).
//
// //tests/lua:sandbox_operators_test calls each with wrong and hostile values.

#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::lua {

std::vector<absl::string_view> SandboxOperators();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_SANDBOX_OPERATORS_H_
