#ifndef MOONRING_LUA_SERVE_ACCESS_KEY_H_
#define MOONRING_LUA_SERVE_ACCESS_KEY_H_

// The key that clients of a service must send: "tml-" and 32 random hexadecimal digits. (The Tinker
// SDK refuses keys with another beginning.)

#include <string>

#include "absl/status/statusor.h"

namespace moonring::serve {

// The key in the file; if there is none, a new key, which is first written to it. Only the user can
// read the file. INVALID_ARGUMENT if the file has no such key; otherwise the file system's errors.
absl::StatusOr<std::string> KeptKey(const std::string& path);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_ACCESS_KEY_H_
