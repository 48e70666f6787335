#include "model/files/mapped_file.h"

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
#include "base/files/input_file.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"

namespace moonring::model {
namespace {

// Maps pages of a file privately (copy on write). MAP_NORESERVE tells a kernel with strict
// overcommit not to count all pages as used memory, because few of them are ever copied.
void* MapPages(int descriptor, uint64_t begin, size_t bytes, int protection) {
  return mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_NORESERVE, descriptor,
              static_cast<off_t>(begin));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  RETURN_IF_ERROR(base::CheckInputFile(path));
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, path);
  auto close_it = absl::MakeCleanup([descriptor] { close(descriptor); });
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(facts.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  const size_t size = static_cast<size_t>(facts.st_size);
  void* address = nullptr;
  if (size > 0) {
    address = MapPages(descriptor, 0, size, PROT_READ);
    if (address == MAP_FAILED)
      return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be mapped"));
  }
  std::move(close_it).Cancel();
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, descriptor, address, size, WatchedFile::Watch(path, facts)));
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::InMemory(std::string path,
                                                                       absl::string_view bytes,
                                                                       uint64_t size) {
  const int descriptor = memfd_create("moonring", MFD_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, path);
  auto close_it = absl::MakeCleanup([descriptor] { close(descriptor); });
  if (ftruncate(descriptor, static_cast<off_t>(size)) != 0) return absl::ErrnoToStatus(errno, path);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written =
        pwrite(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (written < 0) return absl::ErrnoToStatus(errno, path);
    done += static_cast<size_t>(written);
  }
  void* address = size == 0 ? nullptr : MapPages(descriptor, 0, size, PROT_READ);
  if (address == MAP_FAILED)
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be mapped"));
  std::move(close_it).Cancel();
  return std::shared_ptr<const MappedFile>(
      new MappedFile(std::move(path), descriptor, address, size, nullptr));
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) munmap(address_, size_);
  close(descriptor_);
}

at::Tensor ViewOf(const std::shared_ptr<const MappedFile>& file, uint64_t offset,
                  absl::Span<const int64_t> shape, at::ScalarType dtype) {
  const at::IntArrayRef sizes(shape.data(), shape.size());
  const uint64_t bytes =
      static_cast<uint64_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  TORCH_CHECK(offset <= file->size() && bytes <= file->size() - offset, file->path(), ": bytes ",
              offset, " to ", offset + bytes, " expected of ", file->size());
  if (bytes == 0) return at::empty(sizes, dtype);
  if (offset % c10::elementSize(dtype) != 0) {
    at::Tensor copy = at::empty(sizes, dtype);
    std::memcpy(copy.mutable_data_ptr(), file->bytes().data() + offset, bytes);
    return copy;
  }
  // A mapping must begin at the start of a page.
  const uint64_t before = offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  char* pages = static_cast<char*>(
      MapPages(file->descriptor(), offset - before, before + bytes, PROT_READ | PROT_WRITE));
  if (pages == MAP_FAILED && errno == ENOMEM) {
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     base::OutOfMemory(base::MemoryPartName(base::CurrentMemoryPart()),
                                       static_cast<int64_t>(bytes)));
  }
  TORCH_CHECK(pages != MAP_FAILED, file->path(), ": bytes ", offset, " to ", offset + bytes,
              " cannot be mapped: ", std::strerror(errno));
  return at::from_blob(
      pages + before, sizes,
      [pages, length = before + bytes, watched = file->watched()](void*) { munmap(pages, length); },
      at::TensorOptions(dtype));
}

}  // namespace moonring::model
