#ifndef MOONRING_LUA_HUB_CHECKSUM_H_
#define MOONRING_LUA_HUB_CHECKSUM_H_

// Computes, incrementally, the checksum by which a hub identifies a file's contents: SHA-256 for
// files in the hub's large file storage; for others git's SHA-1, of "blob SIZE\0" followed by the
// contents.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::lua {

class Checksum {
 public:
  // Creates the checksum for a file of `size` bytes. The form of the hub's etag selects the
  // algorithm: 64 digits SHA-256, 40 digits git's SHA-1. Null for an etag of another form.
  static std::unique_ptr<Checksum> For(absl::string_view etag, int64_t size);
  virtual ~Checksum() = default;

  virtual void Add(absl::string_view bytes) = 0;
  // Returns the result in lower-case hexadecimal digits. Add must not be called after Digest.
  virtual std::string Digest() = 0;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_CHECKSUM_H_
