// Reads the bytes of a file and decompresses gzip and Zstandard, which are detected by the first
// bytes and not by the name. Several compressed members or frames in a row are concatenated, as by
// the gzip and zstd programs.
//
// Fails if the file cannot be opened or read, or if its compressed data is corrupt or truncated.
// Error messages do not contain the file's name; the caller adds it. Cost: one pass. Skip seeks in
// a plain file, and reads a compressed one.
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

  // Reads at most `room` bytes into `into` and returns their number; 0 only at the end.
  virtual absl::StatusOr<size_t> Read(char* into, size_t room) = 0;

  // Skips that many bytes. Fails if the rest of the file is shorter.
  virtual absl::Status Skip(int64_t bytes);
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_BYTE_STREAM_H_
