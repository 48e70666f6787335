#ifndef MOONRING_TRAINER_FOLDER_LOCK_H_
#define MOONRING_TRAINER_FOLDER_LOCK_H_

// One run at a time in a folder: an advisory lock (flock) on FOLDER/run.lock, which says who holds
// it.
//
// The kernel lets go of it with the process, however that ends: a file that a killed run left is no
// obstacle. Two holders in one process exclude each other too. On NFS it counts between machines;
// that of a machine which is gone stays until its lease ends.
//
// The folder is made where it is missing, with those above it. What was made so goes again with the
// lock, where nothing has come into it: a run that is refused leaves no empty folders.

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

  // FAILED_PRECONDITION: another holds it, with its words: "process 12 on node7, since 2026-11-23
  // 15:10:02"; another user's, too, where we may read its file. UNAVAILABLE: no lock is to be had
  // there (a file system without, a full disk, a link in its place). PERMISSION_DENIED: the folder
  // cannot be made, or written in. Waits for nobody.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Create(const std::string& folder);
  // FAILED_PRECONDITION, as Create, where another holds it now. Changes nothing on the disk.
  static absl::Status Check(const std::string& folder);
  ~FolderLock() { Release(); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Whether the folder still has the file: nobody has removed or renamed the one or the other.
  bool stands() const;
  // Where the file is now: in the folder, in what that was renamed to, or "" where it is removed.
  std::string place() const;

  void Release();  // removes the file, if that is ours still, and lets go; a second call is fine

 private:
  FolderLock(std::string path, int descriptor, std::vector<std::string> made)
      : path_(std::move(path)), descriptor_(descriptor), made_(std::move(made)) {}

  std::string path_;               // absolute
  int descriptor_;                 // -1: released
  std::vector<std::string> made_;  // folders, the outermost first
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_FOLDER_LOCK_H_
