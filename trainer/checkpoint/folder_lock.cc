#include "trainer/checkpoint/folder_lock.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/files/confinement.h"
#include "base/files/new_folder.h"
#include "base/status/status_macros.h"

namespace moonring::trainer {
namespace {

// a try fails if another run releases the lock and removes the file in that moment
constexpr int kTries = 100;

// Returns " on HOST,", for example " on node7,".
std::string OnThisMachine() {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, HOST_NAME_MAX);
  return absl::StrCat(" on ", host, ",");
}

std::string ThisProcess() {
  return absl::StrCat("process ", getpid(), OnThisMachine(), " since ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::LocalTimeZone()));
}

// The text that the lock's holder wrote to the file; the holder may not have written it yet.
std::string Holder(int descriptor) {
  char text[512];
  const ssize_t size = pread(descriptor, text, sizeof(text), 0);
  const absl::string_view words =
      absl::StripSuffix(absl::string_view(text, size > 0 ? size : 0), "\n");
  return words.empty() ? "another process" : std::string(words);
}

// A hint for the error message if the holder is on another machine, which may have crashed without
// releasing the lock.
absl::string_view WordsOnLease(const std::string& holder) {
  const bool elsewhere =
      absl::StrContains(holder, " on ") && !absl::StrContains(holder, OnThisMachine());
  return elsewhere ? "; where that machine is gone, its lock ends with its lease: try again later"
                   : "";
}

// Whether the path still refers to the open file: the holder removes the file before it releases
// the lock.
bool HasName(int descriptor, const std::string& path) {
  struct stat open_one = {}, named = {};
  return fstat(descriptor, &open_one) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

// Opens the file, read-only if it belongs to another user and is not writable. Returns -errno on
// failure. Symbolic links are not followed, because the target would be truncated.
int Open(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // O_NONBLOCK: do not wait for a pipe
  int descriptor = open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0666);
  const int error = errno;
  if (descriptor < 0 && error == EACCES) descriptor = open(path.c_str(), O_RDONLY | kFlags);
  return descriptor < 0 ? -error : descriptor;
}

absl::Status HeldBy(const std::string& folder, const std::string& name, int descriptor) {
  const std::string holder = Holder(descriptor);
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " is written to by ", holder, " (", name, ")", WordsOnLease(holder)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Create(const std::string& folder) {
  const std::string name = absl::StrCat(folder, "/", kName);
  RETURN_IF_ERROR(base::CheckWriting(name));
  ASSIGN_OR_RETURN(std::vector<std::string> made, base::MakeFolder(folder));
  auto unmaking = absl::MakeCleanup([&made] { base::RemoveEmptyFolders(made); });
  std::error_code unknown;  // the working directory may be another one in Release()
  std::string path = std::filesystem::absolute(name, unknown).string();
  if (unknown) path = name;
  for (int tries = 0; tries < kTries; ++tries) {
    const int descriptor = Open(path);
    if (descriptor < 0) {
      return absl::UnavailableError(absl::StrCat(
          name, ": cannot be made: ",
          descriptor == -ELOOP ? "it is a symbolic link" : std::strerror(-descriptor)));
    }
    auto closing = absl::MakeCleanup([descriptor] { close(descriptor); });
    struct stat status = {};
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
      return absl::UnavailableError(absl::StrCat(name, ": cannot be locked: it is no file"));
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      if (error == EWOULDBLOCK) return HeldBy(folder, name, descriptor);
      return absl::UnavailableError(
          absl::StrCat(name, ": cannot be locked: ", std::strerror(error)));
    }
    if (!HasName(descriptor, path)) continue;
    if ((fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDWR) {
      const std::string words = absl::StrCat(ThisProcess(), "\n");
      // Removes the text of an earlier holder. On a full disk, the text is missing, but the lock is
      // valid.
      if (ftruncate(descriptor, 0) == 0) (void)!pwrite(descriptor, words.data(), words.size(), 0);
    } else if (unlink(path.c_str()) == 0) {
      continue;  // removed the file of another user's dead run; the next try creates a new one
    }
    std::move(closing).Cancel();
    std::move(unmaking).Cancel();
    return std::unique_ptr<FolderLock>(new FolderLock(path, descriptor, std::move(made)));
  }
  return absl::UnavailableError(absl::StrCat(name, ": cannot be locked: each of ", kTries,
                                             " times it was removed meanwhile"));
}

absl::Status FolderLock::Check(const std::string& folder) {
  const std::string name = absl::StrCat(folder, "/", kName);
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return absl::OkStatus();  // not locked, or an error that Create reports
  const auto closing = absl::MakeCleanup([descriptor] { close(descriptor); });
  struct stat status = {};
  const bool is_file = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file || flock(descriptor, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return absl::OkStatus();
  return HeldBy(folder, name, descriptor);
}

bool FolderLock::stands() const { return descriptor_ >= 0 && HasName(descriptor_, path_); }

std::string FolderLock::place() const {
  std::error_code unknown;
  const std::string path =
      std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", descriptor_), unknown).string();
  return !unknown && HasName(descriptor_, path) ? path : "";
}

void FolderLock::Release() {
  if (descriptor_ < 0) return;
  // The lock is still held, so no other process can hold this file. If the path refers to another
  // file, that other file is not removed.
  if (const std::string mine = place(); !mine.empty()) unlink(mine.c_str());
  close(std::exchange(descriptor_, -1));
  base::RemoveEmptyFolders(made_);
}

}  // namespace moonring::trainer
