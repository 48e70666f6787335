#ifndef MOONRING_MODEL_BLOCKS_DISK_STORE_H_
#define MOONRING_MODEL_BLOCKS_DISK_STORE_H_

// Activations of the host on a disk, each in a file of its own in a folder, without a name, so that
// nothing is left behind however the process ends:
//
//   Put     hands the tensor to a thread that writes it (write-behind) while the caller goes on;
//           waits only where kUnwritten tensors wait already
//   Get     waits for the writing, and maps the file: its pages are the kernel's cache and no
//           memory of the program's. What was put last before it and is there still is read ahead,
//           as a backward takes activations in reverse
//
// Memory: at most kUnwritten + 1 tensors that are not written yet, beside what the caller holds.
// Disk: the bytes of what is stored now. Tensors below kLeastBytes stay where they are.
//
// Fails with the code of the errno (RESOURCE_EXHAUSTED: the disk is full), naming folder and sizes:
// in Put or Get after it happened.

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

  // INVALID_ARGUMENT where the folder is in memory itself (tmpfs), NOT_FOUND or PERMISSION_DENIED
  // where no file can be made in it.
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
