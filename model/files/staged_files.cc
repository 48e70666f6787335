#include "model/files/staged_files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"

namespace moonring::model {

absl::StatusOr<StagedFiles> StagedFiles::Create(const std::string& dir, Flush flush) {
  RETURN_IF_ERROR(base::CheckWriting(dir));
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error)
    return absl::ErrnoToStatus(error.value(), absl::StrCat(dir, ": the folder cannot be made"));
  return StagedFiles(dir, flush);
}

StagedFiles::StagedFiles(std::string dir, Flush flush) : dir_(std::move(dir)), flush_(flush) {
  const auto& held = base::CurrentHeldFiles();
  if (flush == Flush::kLater && held != nullptr && held->Takes(dir_)) held_ = held;
}

StagedFiles::StagedFiles(StagedFiles&& other) noexcept
    : dir_(std::move(other.dir_)),
      flush_(other.flush_),
      names_(std::exchange(other.names_, {})),
      is_open_(std::exchange(other.is_open_, false)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      held_(std::move(other.held_)),
      bytes_(std::exchange(other.bytes_, {})) {}

StagedFiles::~StagedFiles() {
  if (descriptor_ >= 0) close(descriptor_);
  for (const std::string& name : names_) {
    if (!bytes_.contains(name)) unlink(TemporaryPath(name).c_str());
  }
}

std::string StagedFiles::TemporaryPath(const std::string& name) const {
  return absl::StrCat(dir_, "/.", name, ".", getpid(), ".part");
}

absl::Status StagedFiles::Failure(int error, absl::string_view name) const {
  return absl::ErrnoToStatus(error, absl::StrCat(dir_, "/", name, ": cannot be written"));
}

absl::Status StagedFiles::Begin(const std::string& name) {
  if (is_open_) return absl::FailedPreconditionError(absl::StrCat(names_.back(), " is still open"));
  if (name.empty() || absl::StrContains(name, '/') || name == "." || name == "..")
    return absl::InvalidArgumentError(absl::StrCat("not a plain file name: '", name, "'"));
  if (std::find(names_.begin(), names_.end(), name) != names_.end())
    return absl::InvalidArgumentError(absl::StrCat(name, ": written twice"));
  std::error_code unknown;
  const std::filesystem::file_status target =
      std::filesystem::status(absl::StrCat(dir_, "/", name), unknown);
  if (std::filesystem::exists(target) &&
      // Refused because Commit would replace a device or a pipe by a regular file.
      !std::filesystem::is_regular_file(target)) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir_, "/", name, ": cannot be written: it is there and not a regular file"));
  }
  if (held_ == nullptr) RETURN_IF_ERROR(OpenOnDisk(name));
  names_.push_back(name);
  if (held_ != nullptr) bytes_[name] = {};
  is_open_ = true;
  return absl::OkStatus();
}

absl::Status StagedFiles::OpenOnDisk(const std::string& name) {
  const std::string path = TemporaryPath(name);
  unlink(path.c_str());  // a file left by a process with the same pid, or a link
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return descriptor_ < 0 ? Failure(errno, name) : absl::OkStatus();
}

absl::Status StagedFiles::Spill() {
  const std::string& name = names_.back();
  RETURN_IF_ERROR(OpenOnDisk(name));
  base::HeldBytes bytes = std::move(bytes_.at(name));
  bytes_.erase(name);
  return bytes.Drain([this](absl::string_view piece) { return WriteOnDisk(piece); });
}

absl::Status StagedFiles::Append(absl::string_view bytes) {
  if (descriptor_ < 0) {
    if (held_->Append(bytes_.at(names_.back()), bytes)) return absl::OkStatus();
    RETURN_IF_ERROR(Spill());
  }
  return WriteOnDisk(bytes);
}

absl::Status StagedFiles::WriteOnDisk(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure(errno, names_.back());
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status StagedFiles::End() {
  is_open_ = false;
  if (descriptor_ < 0) return absl::OkStatus();  // the file is in memory
  const int descriptor = std::exchange(descriptor_, -1);
  const int flushed = flush_ == Flush::kLater || fsync(descriptor) == 0 ? 0 : errno;
  const int closed = close(descriptor) == 0 ? 0 : errno;
  if (flushed != 0 || closed != 0) return Failure(flushed != 0 ? flushed : closed, names_.back());
  return absl::OkStatus();
}

absl::Status StagedFiles::Write(const std::string& name, absl::string_view contents) {
  RETURN_IF_ERROR(Begin(name));
  RETURN_IF_ERROR(Append(contents));
  return End();
}

absl::Status StagedFiles::Commit() {
  if (is_open_) return absl::FailedPreconditionError(absl::StrCat(names_.back(), " is still open"));
  while (!names_.empty()) {
    const std::string& name = names_.front();
    if (const auto held = bytes_.find(name); held != bytes_.end()) {
      held_->Add(absl::StrCat(dir_, "/", name), std::move(held->second));
      bytes_.erase(held);
    } else if (rename(TemporaryPath(name).c_str(), absl::StrCat(dir_, "/", name).c_str()) != 0)
      return Failure(errno, name);
    names_.erase(names_.begin());
  }
  return flush_ == Flush::kLater ? absl::OkStatus() : base::FlushFolder(dir_);
}

}  // namespace moonring::model
