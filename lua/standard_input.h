#ifndef MOONRING_LUA_STANDARD_INPUT_H_
#define MOONRING_LUA_STANDARD_INPUT_H_

// Reads a script from standard input (`moonring - < x.lua`).

#include <string>

#include "absl/status/statusor.h"

namespace moonring::lua {

// Reads all of stdin, and replaces it with an in-memory copy, so that a process that is started
// again with the same command line (exec) can read it once more. UNAVAILABLE if it cannot be read.
absl::StatusOr<std::string> TakeStandardInput();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_STANDARD_INPUT_H_
