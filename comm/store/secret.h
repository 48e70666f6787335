#ifndef MOONRING_COMM_STORE_SECRET_H_
#define MOONRING_COMM_STORE_SECRET_H_

// A key that the ranks of one run share, and signatures with it: HMAC-SHA256 (RFC 2104), using
// OpenSSL's SHA-256.

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::comm {

class Secret {
 public:
  static constexpr size_t kBytes = 32;  // of a signature

  // `key`: any bytes, of any length.
  explicit Secret(absl::string_view key);

  // Returns a signature of kBytes bytes.
  std::string Sign(absl::string_view message) const;

  // Whether `signature` is valid for this message. Takes constant time.
  bool Signed(absl::string_view message, absl::string_view signature) const;

 private:
  std::string inner_,
      outer_;  // the key, padded to a hash block and XORed with each pass's byte
};

// `bytes` random bytes from the kernel, as hexadecimal digits.
std::string RandomHex(size_t bytes);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_STORE_SECRET_H_
