#ifndef MOONRING_LUA_HUB_REPOSITORY_LOCK_H_
#define MOONRING_LUA_HUB_REPOSITORY_LOCK_H_

// A lock by which one process on a machine downloads a repository while other processes wait. It is
// an flock of a file next to the locks of single files (blob_file.h), under a name that
// huggingface_hub does not use. On a file system without flock no process waits.

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace moonring::lua {

class RepositoryLock {
 public:
  // Waits for the lock. `stop` is called about ten times a second; if it returns true, the call
  // ends with CANCELLED. `waits` is called once if another process has held the lock for some
  // seconds.
  static absl::StatusOr<std::unique_ptr<RepositoryLock>> Take(const std::string& path,
                                                              absl::FunctionRef<bool()> stop,
                                                              absl::FunctionRef<void()> waits);
  ~RepositoryLock();
  RepositoryLock(const RepositoryLock&) = delete;
  RepositoryLock& operator=(const RepositoryLock&) = delete;

 private:
  explicit RepositoryLock(int descriptor) : descriptor_(descriptor) {}

  const int descriptor_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_REPOSITORY_LOCK_H_
