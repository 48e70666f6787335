#include "comm/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/confinement.h"
#include "comm/status_macros.h"

namespace moonring::comm {
namespace {

namespace fs = std::filesystem;
constexpr size_t kBufferBytes = 1 << 16;
constexpr int kLinks = 40;  // as the kernel: a chain that is longer goes in a circle

// Where a link leads, even where nothing is there yet.
fs::path Follow(fs::path path) {
  std::error_code unknown;
  for (int i = 0; i < kLinks && fs::is_symlink(path, unknown); ++i) {
    const fs::path next = fs::read_symlink(path, unknown);
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  RETURN_IF_ERROR(CheckWriting(path));
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  std::string target = path, draft;
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    target = Follow(path).string();
    draft = absl::StrCat(target, ".", getpid(), ".tmp");
  }
  const int descriptor = open((draft.empty() ? target : draft).c_str(), O_WRONLY | O_CREAT | (draft.empty() ? 0 : O_TRUNC) | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(target), std::move(draft), descriptor));
}

OutputFile::OutputFile(std::string name, std::string target, std::string draft, int descriptor)
    : name_(std::move(name)), target_(std::move(target)), draft_(std::move(draft)), descriptor_(descriptor) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!draft_.empty()) unlink(draft_.c_str());
}

absl::Status OutputFile::Failure(int error) const { return absl::ErrnoToStatus(error, absl::StrCat(name_, ": cannot be written")); }

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
  if (close(std::exchange(descriptor_, -1)) != 0) return Failure(errno);
  if (draft_.empty()) return absl::OkStatus();
  if (std::rename(draft_.c_str(), target_.c_str()) != 0) return Failure(errno);
  draft_.clear();
  return absl::OkStatus();
}

absl::Status WriteWhole(const std::string& path, absl::string_view contents) {
  ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  RETURN_IF_ERROR(file->Append(contents));
  return file->Commit();
}

absl::Status FlushFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(folder, ": cannot be opened"));
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return error == 0 || error == EINVAL ? absl::OkStatus() : absl::ErrnoToStatus(error, absl::StrCat(folder, ": cannot be written"));
}

}  // namespace moonring::comm
