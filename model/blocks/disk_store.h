#ifndef MOONRING_MODEL_BLOCKS_DISK_STORE_H_
#define MOONRING_MODEL_BLOCKS_DISK_STORE_H_

// Stores host activations on a disk, each in its own unnamed file in a folder, so that nothing is
// left behind however the process ends:
//
//   Put     passes the tensor to a writer thread (write-behind) and returns; blocks only while
//           kUnwritten tensors are already queued
//   Get     waits until the tensor is written, and maps the file: its pages are the kernel's cache,
//           not memory of the process. The tensor stored before this one, if any, is read ahead,
//           because a backward uses activations in reverse order
//
// Memory: at most kUnwritten + 1 tensors that are not yet written, in addition to the caller's
// tensors. Disk: the bytes of the activations that are stored at present. Tensors below kLeastBytes
// stay in memory.
//
// Errors have the status code of the errno (RESOURCE_EXHAUSTED if the disk is full), and name the
// folder and the sizes. A write error is reported by the next Put or Get.

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "model/blocks/activation_store.h"

namespace moonring::model {

class DiskStore : public ActivationStore {
 public:
  static constexpr int kUnwritten = 1;
  static constexpr int64_t kLeastBytes = 1 << 16;

  // INVALID_ARGUMENT if the folder is on a memory file system (tmpfs); NOT_FOUND or
  // PERMISSION_DENIED if no file can be created in it.
  static absl::StatusOr<std::shared_ptr<DiskStore>> Create(const std::string& folder);
  ~DiskStore() override;

  std::unique_ptr<StoredActivation> Put(at::Tensor activation) override;
  int64_t stored_bytes() const override;

 private:
  class File;
  struct Entry;
  class Disk;
  class Stored;
  explicit DiskStore(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}

  std::shared_ptr<Disk> disk_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_DISK_STORE_H_
