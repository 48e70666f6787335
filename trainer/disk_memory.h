#ifndef MOONRING_TRAINER_DISK_MEMORY_H_
#define MOONRING_TRAINER_DISK_MEMORY_H_

// Optimizer state in a file: tensors mapped from one, whose pages are written behind the step and
// given back.
//
// The file has no name (base/files/nameless_file.h), so nothing is left behind however the process
// ends. Its blocks are reserved as a tensor is made: a full disk is an error there
// (RESOURCE_EXHAUSTED), never a signal later. What rests is on its way to the disk; kBehind pieces
// later it has arrived and its pages leave memory and the page cache. So what is resident is what a
// step works on.
//
// Cost of a step: each piece is read and written once. Fails as open, mmap and the disk do, naming
// the folder.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/state_memory.h"

namespace moonring::trainer {

class DiskMemory : public StateMemory, public std::enable_shared_from_this<DiskMemory> {
 public:
  // `folder` is there.
  static absl::StatusOr<std::shared_ptr<DiskMemory>> Create(const std::string& folder);
  ~DiskMemory() override;
  DiskMemory(const DiskMemory&) = delete;
  DiskMemory& operator=(const DiskMemory&) = delete;

  absl::StatusOr<at::Tensor> Zeros(int64_t numel, at::ScalarType dtype) override;
  void Rest(const at::Tensor& piece) override;

  int64_t file_bytes() const { return file_bytes_; }  // reserved

 private:
  static constexpr size_t kBehind = 4;
  struct Mapping {
    int64_t bytes, offset;  // in the file
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
  std::map<char*, Mapping> mappings_;  // by where they begin in memory
  std::deque<Pages> resting_;          // being written
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_DISK_MEMORY_H_
