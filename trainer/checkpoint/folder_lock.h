#ifndef MOONRING_TRAINER_CHECKPOINT_FOLDER_LOCK_H_
#define MOONRING_TRAINER_CHECKPOINT_FOLDER_LOCK_H_

// Allows only one run at a time in a folder: an advisory lock (flock) on FOLDER/run.lock, whose
// text names the holder.
//
// The kernel releases the lock when the process ends, in any way, so a file left by a killed run is
// no obstacle. Two locks in one process exclude each other too. On NFS, the lock works across
// machines; if a machine crashes, its locks last until its NFS lease expires.
//
// The folder and its parents are created if missing. Releasing the lock removes created folders
// that are empty, so that a run that fails early leaves no empty folders.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::trainer {

class FolderLock {
 public:
  static constexpr char kName[] = "run.lock";

  // FAILED_PRECONDITION: the lock is held; the message contains the holder's text, "process 12 on
  // node7, since 2026-11-23 15:10:02", if its file is readable. UNAVAILABLE: no lock is possible
  // (no file system support, a full disk, a symbolic link in its place). PERMISSION_DENIED: the
  // folder cannot be created or written to. Does not wait.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Create(const std::string& folder);
  // FAILED_PRECONDITION, as for Create, if another run holds the lock. Does not change anything on
  // the disk.
  static absl::Status Check(const std::string& folder);
  ~FolderLock() { Release(); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Whether the lock file is still in the folder: neither the file nor the folder was removed or
  // renamed.
  bool stands() const;
  // The present path of the lock file, also if the folder was renamed; "" if the file was removed.
  std::string place() const;

  void Release();  // removes this lock's file and unlocks; may be called twice

 private:
  FolderLock(std::string path, int descriptor, std::vector<std::string> made)
      : path_(std::move(path)), descriptor_(descriptor), made_(std::move(made)) {}

  std::string path_;               // absolute
  int descriptor_;                 // -1: released
  std::vector<std::string> made_;  // created folders, the outermost first
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_CHECKPOINT_FOLDER_LOCK_H_
