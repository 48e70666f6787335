#ifndef MOONRING_LUA_OPERATORS_SANDBOX_OPERATORS_H_
#define MOONRING_LUA_OPERATORS_SANDBOX_OPERATORS_H_

// The operators that a script may call under --sandbox: public operators that check their
// arguments, so that no call can crash the process. Excluded are names that begin with an
// underscore, and operators that read files (from_file), change a tensor's view of its storage
// (set_, as_strided, resize_), leave memory uninitialized (empty), quantize, use sparse tensors, or
// call a library that does not check its arguments (convolutions, recurrent cells, rarer LAPACK
// routines).
//
// The test //tests/lua:sandbox_operators_test calls each operator with wrong and malicious values.

#include <vector>

#include "absl/strings/string_view.h"

namespace moonring::lua {

std::vector<absl::string_view> SandboxOperators();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_SANDBOX_OPERATORS_H_
