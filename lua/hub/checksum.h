#ifndef MOONRING_LUA_HUB_CHECKSUM_H_
#define MOONRING_LUA_HUB_CHECKSUM_H_

// The checksum by which a hub names a file's contents, as bytes come: SHA-256 of files in its large
// storage, of the others what git calls them, SHA-1 of "blob SIZE\0" and the contents.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::lua {

class Checksum {
 public:
  // Of a file of `size` bytes, by the form of its name: 64 digits, 40 digits; null for another.
  static std::unique_ptr<Checksum> For(absl::string_view etag, int64_t size);
  virtual ~Checksum() = default;

  virtual void Add(absl::string_view bytes) = 0;
  // In small hexadecimal digits; nothing is added after it.
  virtual std::string Digest() = 0;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_CHECKSUM_H_
