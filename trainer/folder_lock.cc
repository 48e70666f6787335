#include "trainer/folder_lock.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "comm/confinement.h"
#include "comm/status_macros.h"

namespace moonring::trainer {
namespace {

std::string ThisProcess() {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, HOST_NAME_MAX);
  return absl::StrCat("process ", getpid(), " on ", host, ", since ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::LocalTimeZone()));
}

// What the holder wrote; it may be about to.
std::string Holder(int descriptor) {
  char text[512];
  const ssize_t size = pread(descriptor, text, sizeof(text), 0);
  const absl::string_view words =
      absl::StripSuffix(absl::string_view(text, size > 0 ? size : 0), "\n");
  return words.empty() ? "another process" : std::string(words);
}

// Whether the open file still has the name: who held the lock removes the file before it lets go.
bool HasName(int descriptor, const std::string& path) {
  struct stat open_one = {}, named = {};
  return fstat(descriptor, &open_one) == 0 && stat(path.c_str(), &named) == 0 &&
         open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Create(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kName);
  RETURN_IF_ERROR(comm::CheckWriting(path));
  while (true) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
      return absl::UnavailableError(absl::StrCat(path, ": cannot be made: ", std::strerror(errno)));
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string holder = Holder(descriptor);
      close(descriptor);
      if (error == EWOULDBLOCK)
        return absl::FailedPreconditionError(
            absl::StrCat(folder, " is written to by ", holder, " (", path, ")"));
      return absl::UnavailableError(
          absl::StrCat(path, ": cannot be locked: ", std::strerror(error)));
    }
    if (HasName(descriptor, path)) {
      const std::string words = absl::StrCat(ThisProcess(), "\n");
      // Of what an earlier holder left nothing stays; a full disk takes the words, not the lock.
      if (ftruncate(descriptor, 0) == 0) (void)!pwrite(descriptor, words.data(), words.size(), 0);
      return std::unique_ptr<FolderLock>(new FolderLock(path, descriptor));
    }
    close(descriptor);
  }
}

void FolderLock::Release() {
  if (descriptor_ < 0) return;
  unlink(path_.c_str());  // while it is locked: nobody else takes this file for one that counts
  close(std::exchange(descriptor_, -1));
}

}  // namespace moonring::trainer
