#ifndef MOONRING_BASE_FILES_HELD_FILES_H_
#define MOONRING_BASE_FILES_HELD_FILES_H_

// Files that one thread writes into memory and another thread writes from there to the disk: a
// write to a busy disk blocks, a copy in memory does not. While a HeldFilesScope lives on a thread,
// what StagedFiles (flushed later) and WriteWhole write into its folder on that thread goes into
// memory; a file for which there is no room goes to the disk as usual.
//
// Memory: anonymous pages, at most `budget` bytes, freed piece by piece as they reach the disk. If
// the process ends before that, these files are lost.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

// Bytes of memory that all held files of this process take now.
int64_t HeldMemory();

// The bytes of a file.
class HeldBytes {
 public:
  HeldBytes() = default;
  ~HeldBytes() { Clear(); }
  HeldBytes(HeldBytes&& other) noexcept;
  HeldBytes& operator=(HeldBytes&& other) noexcept;

  // False where the system gives no memory.
  bool Append(absl::string_view bytes);
  int64_t size() const { return size_; }
  // Hands over all bytes in order, a piece at a time, each given back once it was taken.
  absl::Status Drain(const std::function<absl::Status(absl::string_view)>& take);

 private:
  void Clear();

  std::vector<char*> pieces_;
  int64_t size_ = 0;
};

// The held files of one folder. Not thread-safe: a second thread may read once the first has
// finished writing.
class HeldFiles {
 public:
  HeldFiles(std::string folder, int64_t budget) : folder_(std::move(folder)), budget_(budget) {}

  // Whether a folder is this one, or a path lies in it.
  bool Takes(absl::string_view path) const;
  // False where there is no room; then `file` is as it was.
  bool Append(HeldBytes& file, absl::string_view bytes);
  // Adds a complete file, in place of one of the same name. `path` is in the folder.
  void Add(const std::string& path, HeldBytes file);

  const std::string& folder() const { return folder_; }
  std::vector<std::string> names() const;   // below the folder
  int64_t bytes() const { return bytes_; }  // that were ever held
  bool was_full() const { return was_full_; }

  // Writes one to its place and flushes it; `see` is handed its bytes. Fails with "PATH: cannot be
  // written: why".
  absl::Status WriteOut(const std::string& name, const std::function<void(absl::string_view)>& see);

 private:
  const std::string folder_;
  const int64_t budget_;
  int64_t bytes_ = 0;
  bool was_full_ = false;
  std::map<std::string, HeldBytes> files_;  // by name
};

// The files of the innermost HeldFilesScope on this thread; null where there is no scope.
const std::shared_ptr<HeldFiles>& CurrentHeldFiles();

class HeldFilesScope {
 public:
  explicit HeldFilesScope(std::shared_ptr<HeldFiles> files);
  ~HeldFilesScope();
  HeldFilesScope(const HeldFilesScope&) = delete;
  HeldFilesScope& operator=(const HeldFilesScope&) = delete;

 private:
  std::shared_ptr<HeldFiles> before_;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_HELD_FILES_H_
