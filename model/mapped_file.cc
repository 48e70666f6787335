#include "model/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace moonring::model {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, path);
  const auto close_it = absl::MakeCleanup([descriptor] { close(descriptor); });
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  const size_t size = static_cast<size_t>(facts.st_size);
  void* address = nullptr;
  if (size > 0) {
    // Without NORESERVE a strict kernel would count the whole file against memory, though few pages are ever copied.
    address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
    if (address == MAP_FAILED) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be mapped"));
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, address, size));
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) munmap(address_, size_);
}

at::Tensor ViewOf(const std::shared_ptr<const MappedFile>& file, uint64_t offset, absl::Span<const int64_t> shape, at::ScalarType dtype) {
  const at::IntArrayRef sizes(shape.data(), shape.size());
  const uint64_t bytes = static_cast<uint64_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  TORCH_CHECK(offset <= file->size() && bytes <= file->size() - offset, file->path(), ": bytes ", offset, " to ", offset + bytes, " wanted of ", file->size());
  if (bytes == 0) return at::empty(sizes, dtype);
  char* begin = const_cast<char*>(file->bytes().data()) + offset;
  if (reinterpret_cast<uintptr_t>(begin) % c10::elementSize(dtype) != 0) {
    at::Tensor copy = at::empty(sizes, dtype);
    std::memcpy(copy.mutable_data_ptr(), begin, bytes);
    return copy;
  }
  return at::from_blob(
      begin, sizes, [file](void*) {}, at::TensorOptions(dtype));
}

}  // namespace moonring::model
