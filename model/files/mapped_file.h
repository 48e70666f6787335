#ifndef MOONRING_MODEL_FILES_MAPPED_FILE_H_
#define MOONRING_MODEL_FILES_MAPPED_FILE_H_

// A file in memory, page by page as it is read (mmap). Ranks on one machine that map the same file
// share its pages.
//
// A tensor that looks into it has a private mapping of its own and may be changed in place (an
// optimizer does so): that copies the pages touched, and reaches neither the file nor any other
// tensor, of the same weight in another model, say. Replacing the file by rename is safe while it
// is mapped; shortening it in place is not (SIGBUS), and what is written into it is read
// (watched_file.h).

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
  // NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE naming the path.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  // A file that no folder has, of `size` bytes: `bytes` and then zeros, which take no memory until
  // they are touched. `path` is for messages.
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
  // Null of one in memory.
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
  void* address_;  // null where the file is empty
  size_t size_;
  std::shared_ptr<const WatchedFile> watched_;
};

// The `shape` elements of `dtype` that begin at byte `offset`, without a copy, in a mapping that
// lives as long as the tensor's storage. Where the bytes do not lie on a multiple of the element's
// size they are copied. The range must lie inside the file.
at::Tensor ViewOf(const std::shared_ptr<const MappedFile>& file, uint64_t offset,
                  absl::Span<const int64_t> shape, at::ScalarType dtype);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_MAPPED_FILE_H_
