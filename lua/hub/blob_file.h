#ifndef MOONRING_LUA_HUB_BLOB_FILE_H_
#define MOONRING_LUA_HUB_BLOB_FILE_H_

// A file of the cache while it is downloaded: ETAG.incomplete, locked by this process, with a
// running checksum. The file gets its final name when it is complete and the checksum is right.
// Until then it stays on disk, however the process ends, and the next download continues it.
//
//   lock      flock of .locks/REPOSITORY/ETAG.lock, which is not removed, as in huggingface_hub's
//             filelock. On a file system without such locks two processes may write the same file;
//             then the checksum fails.
//   checksum  by the form of the etag: 64 digits are a SHA-256; 40 are git's SHA-1 of "blob SIZE\0"
//             and the contents; for another form only the size is checked.
//
// Errors: RESOURCE_EXHAUSTED (a full disk), DATA_LOSS (a wrong checksum or size).

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/hub/checksum.h"

namespace moonring::lua {

class BlobFile {
 public:
  // Opens and locks the file. Returns null if another process has locked it. `blob`: the final
  // path.
  static absl::StatusOr<std::unique_ptr<BlobFile>> TryOpen(const std::string& blob,
                                                           const std::string& lock,
                                                           const std::string& etag, int64_t size);
  ~BlobFile();
  BlobFile(const BlobFile&) = delete;
  BlobFile& operator=(const BlobFile&) = delete;

  // Whether another process completed the file before this one got the lock. Then there is nothing
  // left to download.
  bool is_there() const { return file_ < 0; }
  // Number of bytes in the file, and number of bytes that the checksum includes so far.
  int64_t bytes() const { return bytes_; }
  int64_t checked() const { return checked_; }

  // Adds some of the bytes that are already on disk to the checksum, for a few hundredths of a
  // second. Call it until checked() == bytes().
  absl::Status Check();
  // Appends bytes. May only be called when checked() == bytes().
  absl::Status Append(absl::string_view bytes);
  // Empties the file, to start the download over.
  absl::Status Clear();
  // Renames the file to its final name. DATA_LOSS if checksum or size is wrong; the file is then
  // emptied.
  absl::Status Commit();

 private:
  BlobFile(std::string blob, std::string etag, int64_t size, int lock);
  absl::Status Failure(int error) const;

  const std::string blob_, incomplete_, etag_;
  const int64_t size_;
  const int lock_;  // file descriptor
  int file_ = -1;
  int64_t bytes_ = 0, checked_ = 0;
  std::unique_ptr<Checksum> checksum_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_BLOB_FILE_H_
