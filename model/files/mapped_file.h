#ifndef MOONRING_MODEL_FILES_MAPPED_FILE_H_
#define MOONRING_MODEL_FILES_MAPPED_FILE_H_

// A memory-mapped file (mmap), which the kernel reads page by page. Ranks on one machine that map
// the same file share its pages.
//
// A tensor that views the file has its own private mapping and may be changed in place (an
// optimizer does so): that copies the touched pages and affects neither the file nor any other
// tensor, for example of the same weight in another model. Replacing the file by rename is safe
// while it is mapped. Truncating it in place is not safe (SIGBUS), and data written into it in
// place change the mapped tensors (watched_file.h).

#include <cstdint>
#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "model/files/watched_file.h"

namespace moonring::model {

class MappedFile {
 public:
  // Maps a file. NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE if that fails; the message contains
  // the path.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  // Creates an anonymous file in memory with `size` bytes: `bytes`, then zeros, which take no
  // memory until they are accessed. `path` is only used in messages.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> InMemory(std::string path,
                                                                    absl::string_view bytes,
                                                                    uint64_t size);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  absl::string_view bytes() const { return {static_cast<const char*>(address_), size_}; }
  uint64_t size() const { return size_; }
  int descriptor() const { return descriptor_; }
  // Null for a file from InMemory.
  const std::shared_ptr<const WatchedFile>& watched() const { return watched_; }

 private:
  MappedFile(std::string path, int descriptor, void* address, size_t size,
             std::shared_ptr<const WatchedFile> watched)
      : path_(std::move(path)),
        descriptor_(descriptor),
        address_(address),
        size_(size),
        watched_(std::move(watched)) {}

  std::string path_;
  int descriptor_;
  void* address_;  // null if the file is empty
  size_t size_;
  std::shared_ptr<const WatchedFile> watched_;
};

// Returns a tensor with the data at byte `offset`, in a private mapping that lives as long as the
// tensor's storage. No data are copied, unless the offset is not a multiple of the element size.
// The tensor's bytes must be inside the file.
at::Tensor ViewOf(const std::shared_ptr<const MappedFile>& file, uint64_t offset,
                  absl::Span<const int64_t> shape, at::ScalarType dtype);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_MAPPED_FILE_H_
