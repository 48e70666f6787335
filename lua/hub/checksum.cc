#include "lua/hub/checksum.h"

#include <algorithm>

#define OPENSSL_SUPPRESS_DEPRECATED  // the plain functions are used: EVP would link all of
                                     // libcrypto
#include <openssl/sha.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace moonring::lua {
namespace {

class Sha256 final : public Checksum {
 public:
  Sha256() { SHA256_Init(&context_); }
  void Add(absl::string_view bytes) override {
    SHA256_Update(&context_, bytes.data(), bytes.size());
  }
  std::string Digest() override {
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context_);
    return absl::BytesToHexString(digest);
  }

 private:
  SHA256_CTX context_;
};

class GitSha1 final : public Checksum {
 public:
  explicit GitSha1(int64_t size) {
    SHA1_Init(&context_);
    const std::string header = absl::StrCat("blob ", size);
    SHA1_Update(&context_, header.c_str(), header.size() + 1);
  }
  void Add(absl::string_view bytes) override { SHA1_Update(&context_, bytes.data(), bytes.size()); }
  std::string Digest() override {
    std::string digest(SHA_DIGEST_LENGTH, '\0');
    SHA1_Final(reinterpret_cast<unsigned char*>(digest.data()), &context_);
    return absl::BytesToHexString(digest);
  }

 private:
  SHA_CTX context_;
};

}  // namespace

std::unique_ptr<Checksum> Checksum::For(absl::string_view etag, int64_t size) {
  if (!std::all_of(etag.begin(), etag.end(), absl::ascii_isxdigit)) return nullptr;
  if (etag.size() == 2 * SHA256_DIGEST_LENGTH) return std::make_unique<Sha256>();
  if (etag.size() == 2 * SHA_DIGEST_LENGTH) return std::make_unique<GitSha1>(size);
  return nullptr;
}

}  // namespace moonring::lua
