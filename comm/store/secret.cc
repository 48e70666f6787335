#include "comm/store/secret.h"

#include <sys/random.h>

#include <cerrno>

#define OPENSSL_SUPPRESS_DEPRECATED  // the hash alone is 30 KB of the static library, EVP and its
                                     // providers are 4 MB
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <c10/util/Exception.h>

#include "absl/strings/escaping.h"

namespace moonring::comm {
namespace {

constexpr size_t kBlock = SHA256_CBLOCK;

std::string Hash(absl::string_view first, absl::string_view second) {
  SHA256_CTX context;
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256_Init(&context);
  SHA256_Update(&context, first.data(), first.size());
  SHA256_Update(&context, second.data(), second.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context);
  return digest;
}

}  // namespace

Secret::Secret(absl::string_view key) {
  std::string padded = key.size() > kBlock ? Hash(key, "") : std::string(key);
  padded.resize(kBlock, '\0');
  for (const char byte : padded) {
    inner_ += static_cast<char>(byte ^ 0x36);
    outer_ += static_cast<char>(byte ^ 0x5c);
  }
}

std::string Secret::Sign(absl::string_view message) const {
  return Hash(outer_, Hash(inner_, message));
}

bool Secret::Signed(absl::string_view message, absl::string_view signature) const {
  return signature.size() == kBytes &&
         CRYPTO_memcmp(Sign(message).data(), signature.data(), kBytes) == 0;
}

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    const ssize_t more = getrandom(random.data() + done, bytes - done, 0);
    TORCH_CHECK(more >= 0 || errno == EINTR, "the kernel gives no random bytes (errno ", errno,
                ")");
    if (more > 0) done += more;
  }
  return absl::BytesToHexString(random);
}

}  // namespace moonring::comm
