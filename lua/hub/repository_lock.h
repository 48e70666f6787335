#ifndef MOONRING_LUA_HUB_REPOSITORY_LOCK_H_
#define MOONRING_LUA_HUB_REPOSITORY_LOCK_H_

// One process of a machine downloads a repository, the others wait for it: flock of a file beside
// the locks of single files (blob_file.h), which huggingface_hub leaves alone. Where the file
// system has no such locks nobody waits.

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace moonring::lua {

class RepositoryLock {
 public:
  // Waits until it has it. `stop` is asked some ten times a second: CANCELLED. `waits` is called
  // once where another one has it for some seconds.
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
