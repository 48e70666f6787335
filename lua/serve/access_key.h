#ifndef MOONRING_LUA_SERVE_ACCESS_KEY_H_
#define MOONRING_LUA_SERVE_ACCESS_KEY_H_

// The key that clients of a service must send: "tml-" and 32 random hexadecimal digits. (The Tinker
// SDK refuses keys with another beginning.)

#include <string>

#include "absl/status/statusor.h"

namespace moonring::serve {

// Returns the key in the file. If there is no file, makes a key and writes it to one that only the
// user can read. INVALID_ARGUMENT if the file has no key (tml- and letters, digits, '-' or '_');
// otherwise the file system's errors.
absl::StatusOr<std::string> KeptKey(const std::string& path);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_ACCESS_KEY_H_
