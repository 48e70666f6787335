#ifndef MOONRING_LUA_HUB_BLOB_FILE_H_
#define MOONRING_LUA_HUB_BLOB_FILE_H_

// A blob of the cache while it is downloaded: ETAG.incomplete, which this process has locked, and
// the checksum of what is in it. It gets its name once it is whole and has the right checksum; what
// is there until then stays, however the process ends, and the next goes on behind it.
//
//   lock      flock of .locks/REPOSITORY/ETAG.lock, which stays: as huggingface_hub's filelock. On
//   a
//             file system that has no such locks two processes may write the same file; then the
//             checksum fails
//   checksum  by the etag's form: 64 digits are a SHA-256; 40 are git's SHA-1 of "blob SIZE\0" and
//             the contents; of another the size alone is checked
//
// Fails with RESOURCE_EXHAUSTED (a full disk), DATA_LOSS (a wrong checksum or size).

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
  // Null where another process has locked it. `blob`: the path that it gets.
  static absl::StatusOr<std::unique_ptr<BlobFile>> TryOpen(const std::string& blob,
                                                           const std::string& lock,
                                                           const std::string& etag, int64_t size);
  ~BlobFile();
  BlobFile(const BlobFile&) = delete;
  BlobFile& operator=(const BlobFile&) = delete;

  // Whether another process has finished it before this one got the lock. Then nothing is left to
  // be done.
  bool is_there() const { return file_ < 0; }
  // How many bytes there are, and how many the checksum has seen.
  int64_t bytes() const { return bytes_; }
  int64_t checked() const { return checked_; }

  // Takes some more of what was there before into the checksum, to be called until checked() is
  // bytes(): a few hundredths of a second.
  absl::Status Check();
  // Once it is.
  absl::Status Append(absl::string_view bytes);
  // Begins again.
  absl::Status Clear();
  // Gives it its name. DATA_LOSS where it is another file than was asked for: then it is cleared.
  absl::Status Commit();

 private:
  BlobFile(std::string blob, std::string etag, int64_t size, int lock);
  absl::Status Failure(int error) const;

  const std::string blob_, incomplete_, etag_;
  const int64_t size_;
  const int lock_;  // a descriptor
  int file_ = -1;
  int64_t bytes_ = 0, checked_ = 0;
  std::unique_ptr<Checksum> checksum_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_BLOB_FILE_H_
