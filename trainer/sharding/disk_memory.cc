#include "trainer/sharding/disk_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/nameless_file.h"

namespace moonring::trainer {
namespace {

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

int64_t WholePages(int64_t bytes) { return (bytes + PageBytes() - 1) / PageBytes() * PageBytes(); }

}  // namespace

absl::Status DiskMemory::Failure(int error, absl::string_view what) const {
  const auto code = error == ENOSPC || error == EDQUOT || error == EFBIG
                        ? absl::StatusCode::kResourceExhausted
                        : absl::ErrnoToStatus(error, "").code();
  return absl::Status(
      code, absl::StrCat("offload_optimizer: ", folder_, ": ", what, ": ", strerror(error)));
}

absl::StatusOr<std::shared_ptr<DiskMemory>> DiskMemory::Create(const std::string& folder) {
  const int file = base::OpenNamelessFile(folder);
  std::shared_ptr<DiskMemory> memory(new DiskMemory(folder, file));
  if (file < 0) return memory->Failure(errno, "a file cannot be made");
  return memory;
}

DiskMemory::~DiskMemory() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<at::Tensor> DiskMemory::Zeros(int64_t numel, at::ScalarType dtype) {
  const at::TensorOptions options = at::TensorOptions(at::kCPU).dtype(dtype);
  if (numel == 0) return at::zeros({0}, options);
  const int64_t bytes = WholePages(numel * static_cast<int64_t>(c10::elementSize(dtype))),
                offset = file_bytes_;
  if (const int error = posix_fallocate(file_, offset, bytes); error != 0) {
    return Failure(error, absl::StrCat(bytes, " bytes more than ", offset, " cannot be reserved"));
  }
  void* begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, offset);
  if (begin == MAP_FAILED) return Failure(errno, absl::StrCat(bytes, " bytes cannot be mapped"));
  file_bytes_ = offset + bytes;
  mappings_[static_cast<char*>(begin)] = {bytes, offset};
  const auto unmap = [memory = shared_from_this(), bytes](void* mapped) {
    memory->mappings_.erase(static_cast<char*>(mapped));
    std::erase_if(memory->resting_, [&](const Pages& pages) {
      return pages.begin >= mapped && pages.begin < static_cast<char*>(mapped) + bytes;
    });
    munmap(mapped, bytes);
  };
  return at::from_blob(begin, {numel}, unmap, options);
}

void DiskMemory::Rest(const at::Tensor& piece) {
  if (!piece.is_cpu() || piece.nbytes() == 0) return;
  char* const address = static_cast<char*>(piece.data_ptr());
  auto found = mappings_.upper_bound(address);
  if (found == mappings_.begin() || address >= (--found)->first + found->second.bytes) return;
  // The whole pages that the piece fills, including the last page if the piece ends the tensor.
  const int64_t from = WholePages(address - found->first);
  const int64_t end = address - found->first + static_cast<int64_t>(piece.nbytes());
  const int64_t to = WholePages(end) == found->second.bytes ? found->second.bytes
                                                            : end / PageBytes() * PageBytes();
  if (to <= from) return;
  const Pages pages{found->first + from, to - from, found->second.offset + from};
  sync_file_range(file_, pages.offset, pages.bytes, SYNC_FILE_RANGE_WRITE);
  resting_.push_back(pages);
  for (; resting_.size() > kBehind; resting_.pop_front()) GiveBack(resting_.front());
}

void DiskMemory::GiveBack(const Pages& pages) const {
  sync_file_range(file_, pages.offset, pages.bytes,
                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  madvise(pages.begin, pages.bytes,
          MADV_DONTNEED);  // shared mapping: pages not yet written stay in the page cache
  posix_fadvise(file_, pages.offset, pages.bytes, POSIX_FADV_DONTNEED);
}

}  // namespace moonring::trainer
