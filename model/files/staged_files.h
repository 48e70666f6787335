#ifndef MOONRING_MODEL_FILES_STAGED_FILES_H_
#define MOONRING_MODEL_FILES_STAGED_FILES_H_

// Files of one folder that appear together or not at all: each is written and flushed to the disk
// beside its place under a temporary name, and Commit renames them, in the order in which they were
// begun. Until then, and after a failure (a full disk, say), the folder holds what it held before.
// A crash between two renames can leave new files beside old ones, never half a file. Files that
// are flushed later are written into memory, where that is asked for (base/files/held_files.h).

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

// Who brings the bytes from the kernel's cache to the disk: Commit's caller can then rely on them,
// or does it (kLater), as a checkpoint's publisher.
enum class Flush { kNow, kLater };

class StagedFiles {
 public:
  // Makes the folder, and those above it, where there is none.
  static absl::StatusOr<StagedFiles> Create(const std::string& dir, Flush flush = Flush::kNow);
  ~StagedFiles();  // removes what was not committed
  StagedFiles(StagedFiles&& other) noexcept;
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  // `name` is a plain name without folders. One file is written at a time: Begin, Append as often
  // as wanted, End.
  absl::Status Begin(const std::string& name);
  absl::Status Append(absl::string_view bytes);
  absl::Status End();
  absl::Status Write(const std::string& name, absl::string_view contents);  // all three

  const std::vector<std::string>& names() const { return names_; }  // staged, not yet committed

  absl::Status Commit();

 private:
  StagedFiles(std::string dir, Flush flush);
  std::string TemporaryPath(const std::string& name) const;
  absl::Status OpenOnDisk(const std::string& name);
  absl::Status WriteOnDisk(absl::string_view bytes);
  // Moves the file that is being written from memory, which is full, to the disk.
  absl::Status Spill();
  absl::Status Failure(int error, absl::string_view name) const;

  std::string dir_;
  Flush flush_;
  std::vector<std::string> names_;
  bool is_open_ = false;                          // names_.back() is being written
  int descriptor_ = -1;                           // of it, where it is written to the disk
  std::shared_ptr<base::HeldFiles> held_;         // null: all are written to the disk
  std::map<std::string, base::HeldBytes> bytes_;  // by name, of those that are in memory
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_STAGED_FILES_H_
