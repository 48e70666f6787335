#ifndef MOONRING_COMM_STORE_SECRET_H_
#define MOONRING_COMM_STORE_SECRET_H_

// A key that the ranks of one run share, and what is signed with it: HMAC-SHA256 (RFC 2104) over
// OpenSSL's SHA-256.

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::comm {

class Secret {
 public:
  static constexpr size_t kBytes = 32;  // of a signature

  // Any bytes, as many as one likes.
  explicit Secret(absl::string_view key);

  // kBytes bytes.
  std::string Sign(absl::string_view message) const;

  // Whether `signature` is this message's. Takes as long wherever they differ.
  bool Signed(absl::string_view message, absl::string_view signature) const;

 private:
  std::string inner_,
      outer_;  // the key, padded to a block of the hash and mixed with each pass's byte
};

// So many bytes of the kernel's randomness, as hexadecimal digits.
std::string RandomHex(size_t bytes);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_SECRET_H_
