#ifndef MOONRING_BASE_FILES_HELD_FILES_H_
#define MOONRING_BASE_FILES_HELD_FILES_H_

// Buffers files in memory, so that one thread writes them without waiting for the disk and another
// thread later writes them to the disk. While a HeldFilesScope is alive on a thread, StagedFiles
// (model/files/staged_files.h, if its files are to be flushed later) and WriteWhole write the files
// of the scope's folder to memory; a file that does not fit goes to the disk as usual.
//
// Memory: anonymous pages, at most `budget` bytes, freed piece by piece as they are written to the
// disk. If the process ends before that, these files are lost.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

// Bytes of memory that all held files of this process occupy.
int64_t HeldMemory();

// The contents of one file.
class HeldBytes {
 public:
  HeldBytes() = default;
  ~HeldBytes() { Clear(); }
  HeldBytes(HeldBytes&& other) noexcept;
  HeldBytes& operator=(HeldBytes&& other) noexcept;

  // Returns false if the system is out of memory.
  bool Append(absl::string_view bytes);
  int64_t size() const { return size_; }
  // Passes all bytes to `take` in order, one piece at a time, and frees each piece after the call.
  absl::Status Drain(const std::function<absl::Status(absl::string_view)>& take);

 private:
  void Clear();

  std::vector<char*> pieces_;
  int64_t size_ = 0;
};

// The held files of one folder. Not thread-safe: a second thread may read them only after the first
// has finished writing.
class HeldFiles {
 public:
  HeldFiles(std::string folder, int64_t budget) : folder_(std::move(folder)), budget_(budget) {}

  // Whether `path` is this folder or is inside it.
  bool Takes(absl::string_view path) const;
  // Returns false if there is no room; `file` is then unchanged.
  bool Append(HeldBytes& file, absl::string_view bytes);
  // Adds a complete file, which replaces an existing file with the same name. `path` must be in the
  // folder.
  void Add(const std::string& path, HeldBytes file);

  const std::string& folder() const { return folder_; }
  std::vector<std::string> names() const;   // relative to the folder
  int64_t bytes() const { return bytes_; }  // total of all Append calls
  bool was_full() const { return was_full_; }

  // Writes a file to the disk and flushes it; `see` is called with the file's bytes, piece by
  // piece. Fails with "PATH: cannot be written: why".
  absl::Status WriteOut(const std::string& name, const std::function<void(absl::string_view)>& see);

 private:
  const std::string folder_;
  const int64_t budget_;
  int64_t bytes_ = 0;
  bool was_full_ = false;
  std::map<std::string, HeldBytes> files_;  // by name
};

// The files of the innermost HeldFilesScope on this thread; null without a scope.
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
