#ifndef MOONRING_LUA_HOST_STANDARD_INPUT_H_
#define MOONRING_LUA_HOST_STANDARD_INPUT_H_

// Reads a script from standard input (`moonring - < x.lua`).

#include <string>

#include "absl/status/statusor.h"

namespace moonring::lua {

// Reads all of stdin, and replaces stdin with an in-memory copy, so that the process can read it
// once more after it restarts itself (exec) with the same command line. Errors: UNAVAILABLE if
// stdin cannot be read.
absl::StatusOr<std::string> TakeStandardInput();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_STANDARD_INPUT_H_
