#ifndef MOONRING_MODEL_FILES_STAGED_FILES_H_
#define MOONRING_MODEL_FILES_STAGED_FILES_H_

// Files of one folder that appear together or not at all. Each is written and flushed to the disk
// under a temporary name in the same folder, and Commit renames them in the order in which they
// were begun. Before Commit, and after a failure (such as a full disk), the folder is unchanged. A
// crash between two renames can leave new files next to old ones, but never a partial file. With
// Flush::kLater, files can be buffered in memory (base/files/held_files.h).

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/files/held_files.h"

namespace moonring::model {

// Who flushes the data from the kernel's cache to the disk (fsync): Commit itself (kNow), or later
// the caller of Commit (kLater), for example the code that publishes a training checkpoint.
enum class Flush { kNow, kLater };

class StagedFiles {
 public:
  // Creates the folder and its parents if necessary.
  static absl::StatusOr<StagedFiles> Create(const std::string& dir, Flush flush = Flush::kNow);
  ~StagedFiles();  // removes files that were not committed
  StagedFiles(StagedFiles&& other) noexcept;
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  // Begin starts a file, whose name must not contain a folder; Append adds bytes, any number of
  // times; End finishes the file. One file is written at a time.
  absl::Status Begin(const std::string& name);
  absl::Status Append(absl::string_view bytes);
  absl::Status End();
  absl::Status Write(const std::string& name, absl::string_view contents);  // Begin, Append and End

  const std::vector<std::string>& names() const { return names_; }  // staged, not yet committed

  absl::Status Commit();

 private:
  StagedFiles(std::string dir, Flush flush);
  std::string TemporaryPath(const std::string& name) const;
  absl::Status OpenOnDisk(const std::string& name);
  absl::Status WriteOnDisk(absl::string_view bytes);
  // Moves the file that is being written from memory to the disk, because the memory limit is
  // reached.
  absl::Status Spill();
  absl::Status Failure(int error, absl::string_view name) const;

  std::string dir_;
  Flush flush_;
  std::vector<std::string> names_;
  bool is_open_ = false;                          // names_.back() is being written
  int descriptor_ = -1;                           // of names_.back(), if it is written to the disk
  std::shared_ptr<base::HeldFiles> held_;         // null: all files are written to the disk
  std::map<std::string, base::HeldBytes> bytes_;  // by name, the files that are in memory
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_STAGED_FILES_H_
