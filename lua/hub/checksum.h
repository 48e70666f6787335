#ifndef MOONRING_LUA_HUB_CHECKSUM_H_
#define MOONRING_LUA_HUB_CHECKSUM_H_

// The checksum by which a hub identifies a file's contents, computed incrementally: SHA-256 for
// files in its large file storage, git's SHA-1 of "blob SIZE\0" and the contents for others.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::lua {

class Checksum {
 public:
  // Creates the checksum for a file of `size` bytes by the form of its etag: 64 digits, 40 digits;
  // null for another form.
  static std::unique_ptr<Checksum> For(absl::string_view etag, int64_t size);
  virtual ~Checksum() = default;

  virtual void Add(absl::string_view bytes) = 0;
  // The result in lower-case hexadecimal digits; Add must not be called after it.
  virtual std::string Digest() = 0;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_CHECKSUM_H_
