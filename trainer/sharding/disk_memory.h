#ifndef MOONRING_TRAINER_SHARDING_DISK_MEMORY_H_
#define MOONRING_TRAINER_SHARDING_DISK_MEMORY_H_

// Optimizer state in a file: tensors are memory-mapped, and their pages are written back and
// evicted after use.
//
// The file is unnamed (base/files/nameless_file.h), so it disappears however the process ends. Disk
// blocks are reserved when a tensor is created, so a full disk is an error at that time
// (RESOURCE_EXHAUSTED) and never a SIGBUS later. Rest() starts writing a piece to the disk. After
// kBehind more calls of Rest(), the piece is completely written, and its pages are removed from
// memory and from the page cache. Only the pages that a step works on are therefore resident.
//
// Cost of a step: each piece is read and written once. Errors are those of open, mmap and the disk,
// and name the folder.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/sharding/state_memory.h"

namespace moonring::trainer {

class DiskMemory : public StateMemory, public std::enable_shared_from_this<DiskMemory> {
 public:
  // `folder` must exist.
  static absl::StatusOr<std::shared_ptr<DiskMemory>> Create(const std::string& folder);
  ~DiskMemory() override;
  DiskMemory(const DiskMemory&) = delete;
  DiskMemory& operator=(const DiskMemory&) = delete;

  absl::StatusOr<at::Tensor> Zeros(int64_t numel, at::ScalarType dtype) override;
  void Rest(const at::Tensor& piece) override;

  int64_t file_bytes() const { return file_bytes_; }  // reserved bytes

 private:
  static constexpr size_t kBehind = 4;
  struct Mapping {
    int64_t bytes, offset;  // offset in the file
  };
  struct Pages {
    char* begin;
    int64_t bytes, offset;
  };
  DiskMemory(std::string folder, int file) : folder_(std::move(folder)), file_(file) {}
  absl::Status Failure(int error, absl::string_view what) const;
  void GiveBack(const Pages& pages) const;

  std::string folder_;
  int file_;
  int64_t file_bytes_ = 0;
  std::map<char*, Mapping> mappings_;  // by start address
  std::deque<Pages> resting_;          // being written
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_DISK_MEMORY_H_
