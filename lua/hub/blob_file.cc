#include "lua/hub/blob_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/status_macros.h"
#include "lua/hub/repository_folder.h"

namespace moonring::lua {
namespace {

constexpr size_t kCheckedBytes = 16 << 20;  // bytes in one call of Check

}  // namespace

absl::StatusOr<std::unique_ptr<BlobFile>> BlobFile::TryOpen(const std::string& blob,
                                                            const std::string& lock,
                                                            const std::string& etag, int64_t size) {
  RETURN_IF_ERROR(MakeFolderOf(lock));
  RETURN_IF_ERROR(MakeFolderOf(blob));
  const int descriptor = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(lock, ": cannot be opened"));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EACCES)) {
    close(descriptor);
    return nullptr;
  }
  std::unique_ptr<BlobFile> file(new BlobFile(blob, etag, size, descriptor));
  if (access(blob.c_str(), F_OK) == 0) return file;
  file->file_ = open(file->incomplete_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file->file_ < 0) return file->Failure(errno);
  file->bytes_ = std::max<int64_t>(0, lseek(file->file_, 0, SEEK_END));
  if (file->bytes_ > size) RETURN_IF_ERROR(file->Clear());
  return file;
}

BlobFile::BlobFile(std::string blob, std::string etag, int64_t size, int lock)
    : blob_(std::move(blob)),
      incomplete_(blob_ + ".incomplete"),
      etag_(std::move(etag)),
      size_(size),
      lock_(lock),
      checksum_(Checksum::For(etag_, size_)) {}

BlobFile::~BlobFile() {
  if (file_ >= 0) close(file_);
  close(lock_);  // also unlocks it
}

absl::Status BlobFile::Failure(int error) const {
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(
        incomplete_, ": the disk is full; the partial file is kept for a later start"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat(incomplete_, ": cannot be written"));
}

absl::Status BlobFile::Check() {
  if (checksum_ == nullptr) checked_ = bytes_;
  std::string bytes(std::min<int64_t>(kCheckedBytes, bytes_ - checked_), '\0');
  if (bytes.empty()) return absl::OkStatus();
  const ssize_t read = pread(file_, bytes.data(), bytes.size(), checked_);
  if (read < 0 && errno == EINTR) return absl::OkStatus();
  if (read <= 0) return Failure(read < 0 ? errno : EIO);
  checksum_->Add(absl::string_view(bytes).substr(0, read));
  checked_ += read;
  return absl::OkStatus();
}

absl::Status BlobFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file_, bytes.data(), bytes.size(), bytes_);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure(errno);
    if (checksum_ != nullptr) checksum_->Add(bytes.substr(0, written));
    bytes_ += written;
    checked_ += written;
    bytes.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status BlobFile::Clear() {
  if (ftruncate(file_, 0) != 0) return Failure(errno);
  bytes_ = checked_ = 0;
  checksum_ = Checksum::For(etag_, size_);
  return absl::OkStatus();
}

absl::Status BlobFile::Commit() {
  std::string wrong;
  if (bytes_ != size_) {
    wrong = absl::StrCat(bytes_, " bytes received, the hub states ", size_);
  } else if (checksum_ != nullptr) {
    const std::string digest = checksum_->Digest();
    if (digest != absl::AsciiStrToLower(etag_))
      wrong = absl::StrCat("its checksum is ", digest, ", the hub states ", etag_);
  }
  if (!wrong.empty()) {
    RETURN_IF_ERROR(Clear());
    return absl::DataLossError(wrong);
  }
  if (std::rename(incomplete_.c_str(), blob_.c_str()) != 0) return Failure(errno);
  return absl::OkStatus();
}

}  // namespace moonring::lua
