#include "base/files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/files/held_files.h"
#include "base/status/status_macros.h"

namespace moonring::base {
namespace {

namespace fs = std::filesystem;
constexpr size_t kBufferBytes = 1 << 16;

// Whether the path may be a link kept by the system, such as /dev/stdout, which refers to an open
// file of this process.
bool IsOfSystem(const std::string& path) {
  return absl::StartsWith(path, "/dev/") || absl::StartsWith(path, "/proc/");
}

std::string PathOf(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

// Opens a file without a name, which can be named later; -1 if the file system (NFS) does not
// support this.
int OpenNameless(const fs::path& folder) {
  const int descriptor =
      open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0 || access(PathOf(descriptor).c_str(), F_OK) == 0) return descriptor;
  close(descriptor);  // without /proc it could not be named
  return -1;
}

int OpenDraft(const std::string& path) {
  unlink(path.c_str());  // an earlier process with the same PID may have left it
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

// Opens a target that is not a regular file. -1 with ENXIO for a pipe that nobody opens for reading
// within a second; without O_NONBLOCK open() would wait forever.
int OpenAsItStands(const std::string& path) {
  constexpr int kTries = 100, kPauseMicroseconds = 10'000;
  int descriptor = -1;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) usleep(kPauseMicroseconds);
    descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != ENXIO) break;
  }
  if (descriptor >= 0) fcntl(descriptor, F_SETFL, O_WRONLY);  // writes wait for the reader
  return descriptor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  RETURN_IF_ERROR(CheckWriting(path));
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  std::string target = path, draft;
  int descriptor = -1;
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    if (IsOfSystem(path)) target = WithoutLinks(path);
    draft = absl::StrCat(target, ".", getpid(), ".tmp");
    descriptor = OpenNameless(fs::path(target).parent_path());
  }
  const bool is_nameless = descriptor >= 0;
  if (!is_nameless) {
    descriptor = draft.empty() ? OpenAsItStands(target) : OpenDraft(draft);
  }
  if (descriptor < 0 && errno == ENXIO) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": cannot be written: it is a pipe or socket that nobody reads"));
  }
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  return std::unique_ptr<OutputFile>(
      new OutputFile(path, std::move(target), std::move(draft), is_nameless, descriptor));
}

OutputFile::OutputFile(std::string name, std::string target, std::string draft, bool is_nameless,
                       int descriptor)
    : name_(std::move(name)),
      target_(std::move(target)),
      draft_(std::move(draft)),
      is_nameless_(is_nameless),
      descriptor_(descriptor) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!draft_.empty() && !is_nameless_) unlink(draft_.c_str());
}

absl::Status OutputFile::Failure(int error) const {
  return absl::ErrnoToStatus(error, absl::StrCat(name_, ": cannot be written"));
}

absl::Status OutputFile::Append(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status OutputFile::Flush() {
  for (absl::string_view rest = buffer_; !rest.empty();) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure(errno);
    rest.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  RETURN_IF_ERROR(Flush());
  if (is_nameless_) {
    const std::string self = PathOf(descriptor_);
    const auto name = [&self](const std::string& path) {
      return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    if (name(target_)) {
      draft_.clear();
    } else {  // the name exists, and linkat replaces nothing: link a draft, then rename
      unlink(draft_.c_str());  // left by a process with the same PID
      if (!name(draft_)) return Failure(errno);
    }
    is_nameless_ = false;
  }
  if (close(std::exchange(descriptor_, -1)) != 0) return Failure(errno);
  if (draft_.empty()) return absl::OkStatus();
  if (std::rename(draft_.c_str(), target_.c_str()) != 0) return Failure(errno);
  draft_.clear();
  return absl::OkStatus();
}

absl::Status WriteWhole(const std::string& path, absl::string_view contents) {
  if (const auto& held = CurrentHeldFiles(); held != nullptr && held->Takes(path)) {
    RETURN_IF_ERROR(CheckWriting(path));
    HeldBytes bytes;
    if (held->Append(bytes, contents)) {
      held->Add(path, std::move(bytes));
      return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  RETURN_IF_ERROR(file->Append(contents));
  return file->Commit();
}

absl::Status FlushFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(folder, ": cannot be opened"));
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return error == 0 || error == EINVAL
             ? absl::OkStatus()
             : absl::ErrnoToStatus(error, absl::StrCat(folder, ": cannot be written"));
}

}  // namespace moonring::base
