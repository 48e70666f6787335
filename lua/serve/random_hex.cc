#include "lua/serve/random_hex.h"

#include <sys/random.h>

#include "absl/strings/escaping.h"

namespace moonring::serve {

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  size_t have = 0;
  while (have < bytes) {  // a signal may interrupt it
    const ssize_t got = getrandom(random.data() + have, bytes - have, 0);
    if (got > 0) have += static_cast<size_t>(got);
  }
  return absl::BytesToHexString(random);
}

}  // namespace moonring::serve
