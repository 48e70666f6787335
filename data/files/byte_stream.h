// The bytes of a file, decompressed where it is gzip or Zstandard: told by its first bytes,
// whatever its name. Several compressed members one after another are one text, as gzip and zstd
// themselves take them.
//
// Fails where the file cannot be opened or read, or its compressed data is broken or cut off;
// messages leave the file's name to the caller. Cost: one pass; Skip jumps in a plain file and
// reads in a compressed one.
#ifndef MOONRING_DATA_FILES_BYTE_STREAM_H_
#define MOONRING_DATA_FILES_BYTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::data {

class ByteStream {
 public:
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(const std::string& path);
  virtual ~ByteStream() = default;

  // How many bytes were read into `into`, at most `room`; 0 at the end alone.
  virtual absl::StatusOr<size_t> Read(char* into, size_t room) = 0;

  // Passes over that many bytes. Fails where there are fewer.
  virtual absl::Status Skip(int64_t bytes);
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_BYTE_STREAM_H_
