#ifndef MOONRING_LUA_STANDARD_INPUT_H_
#define MOONRING_LUA_STANDARD_INPUT_H_

// A script on standard input (`moonring - < x.lua`).

#include <string>

#include "absl/status/statusor.h"

namespace moonring::lua {

// All of stdin. What is read is put in its place, in memory and read to its end, so that a process
// that starts anew by the same words reads it again. UNAVAILABLE where it cannot be read.
absl::StatusOr<std::string> TakeStandardInput();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_STANDARD_INPUT_H_
