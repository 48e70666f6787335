#include "lua/hub/repository_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/status_macros.h"
#include "lua/hub/repository_folder.h"

namespace moonring::lua {
namespace {

constexpr std::chrono::milliseconds kLockTick(100);
constexpr int kPatientTicks = 30;  // ticks

}  // namespace

absl::StatusOr<std::unique_ptr<RepositoryLock>> RepositoryLock::Take(
    const std::string& path, absl::FunctionRef<bool()> stop, absl::FunctionRef<void()> waits) {
  RETURN_IF_ERROR(base::CheckWriting(path));
  RETURN_IF_ERROR(MakeFolderOf(path));
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be opened"));
  std::unique_ptr<RepositoryLock> lock(new RepositoryLock(descriptor));
  for (int tick = 1; flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tick) {
    if (stop()) return absl::CancelledError("the download was cancelled");
    if (tick == kPatientTicks) waits();
    std::this_thread::sleep_for(kLockTick);
  }
  return lock;
}

RepositoryLock::~RepositoryLock() { close(descriptor_); }  // also unlocks it

}  // namespace moonring::lua
