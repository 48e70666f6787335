#ifndef MOONRING_COMM_FILES_HELD_FILES_H_
#define MOONRING_COMM_FILES_HELD_FILES_H_

// Files that are written into memory, and from there onto the disk by another thread: a write to a
// busy disk waits for it, a copy in memory does not. Who writes files of a folder through
// StagedFiles (flushed later) or WriteWhole does so here while a HeldFilesScope is over its thread;
// a file that finds no room goes to the disk, as it would without.
//
// Memory: anonymous pages, at most `budget` bytes, given back piece by piece as they are written
// out. A process that ends before that leaves nothing of them.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::comm {

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

// One thread writes; another takes them when that has ended.
class HeldFiles {
 public:
  HeldFiles(std::string folder, int64_t budget) : folder_(std::move(folder)), budget_(budget) {}

  // Whether a folder is this one, or a path lies in it.
  bool Takes(absl::string_view path) const;
  // False where there is no room; then `file` is as it was.
  bool Append(HeldBytes& file, absl::string_view bytes);
  // The file is there; one of that name goes. `path` lies in the folder.
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

// This thread's; null where there are none.
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

}  // namespace moonring::comm

#endif  // MOONRING_COMM_FILES_HELD_FILES_H_
