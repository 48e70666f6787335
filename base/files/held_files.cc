#include "base/files/held_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/status_macros.h"

namespace moonring::base {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

// The count is global, because memory belongs to the process.
std::atomic<int64_t> held_memory = 0;

void Unmap(char* piece) {
  munmap(piece, kPieceBytes);
  held_memory -= kPieceBytes;
}

std::shared_ptr<HeldFiles>& Current() {
  thread_local std::shared_ptr<HeldFiles> current;
  return current;
}

absl::Status WriteAll(int descriptor, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

HeldBytes::HeldBytes(HeldBytes&& other) noexcept
    : pieces_(std::exchange(other.pieces_, {})), size_(std::exchange(other.size_, 0)) {}

int64_t HeldMemory() { return held_memory; }

HeldBytes& HeldBytes::operator=(HeldBytes&& other) noexcept {
  Clear();
  pieces_ = std::exchange(other.pieces_, {});
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void HeldBytes::Clear() {
  for (char* piece : pieces_) {
    if (piece != nullptr) Unmap(piece);
  }
  pieces_.clear();
  size_ = 0;
}

bool HeldBytes::Append(absl::string_view bytes) {
  const int64_t before = size_;
  while (!bytes.empty()) {
    const int64_t used = size_ % kPieceBytes;
    if (size_ == static_cast<int64_t>(pieces_.size()) * kPieceBytes) {
      void* piece =
          mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (piece == MAP_FAILED) {
        size_ = before;
        return false;
      }
      held_memory += kPieceBytes;
      pieces_.push_back(static_cast<char*>(piece));
    }
    const int64_t count = std::min<int64_t>(kPieceBytes - used, bytes.size());
    std::memcpy(pieces_[size_ / kPieceBytes] + used, bytes.data(), count);
    size_ += count;
    bytes.remove_prefix(count);
  }
  return true;
}

absl::Status HeldBytes::Drain(const std::function<absl::Status(absl::string_view)>& take) {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const int64_t count = std::min(kPieceBytes, size_ - static_cast<int64_t>(i) * kPieceBytes);
    if (count > 0) RETURN_IF_ERROR(take(absl::string_view(pieces_[i], count)));
    Unmap(std::exchange(pieces_[i], nullptr));
  }
  Clear();
  return absl::OkStatus();
}

bool HeldFiles::Takes(absl::string_view path) const {
  return path == folder_ || absl::StartsWith(path, folder_ + "/");
}

bool HeldFiles::Append(HeldBytes& file, absl::string_view bytes) {
  const auto count = static_cast<int64_t>(bytes.size());
  if (bytes_ + count > budget_ || !file.Append(bytes)) {
    was_full_ = true;
    return false;
  }
  bytes_ += count;
  return true;
}

void HeldFiles::Add(const std::string& path, HeldBytes file) {
  files_.insert_or_assign(path.substr(folder_.size() + 1), std::move(file));
}

std::vector<std::string> HeldFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

absl::Status HeldFiles::WriteOut(const std::string& name,
                                 const std::function<void(absl::string_view)>& see) {
  const std::string path = absl::StrCat(folder_, "/", name);
  RETURN_IF_ERROR(CheckWriting(path));
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  absl::Status status = files_.at(name).Drain([&](absl::string_view bytes) {
    see(bytes);
    return WriteAll(descriptor, bytes, path);
  });
  if (status.ok() && fsync(descriptor) != 0)
    status = absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  close(descriptor);
  return status;
}

const std::shared_ptr<HeldFiles>& CurrentHeldFiles() { return Current(); }

HeldFilesScope::HeldFilesScope(std::shared_ptr<HeldFiles> files)
    : before_(std::exchange(Current(), std::move(files))) {}

HeldFilesScope::~HeldFilesScope() { Current() = std::move(before_); }

}  // namespace moonring::base
