#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNEL_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNEL_H_

// One kernel of the pretend device. It accesses the device's tensors as CPU tensors over the same
// bytes, and is ordered as work of the current stream.

#include <vector>

#include <ATen/core/Tensor.h>

#include "tests/testing/pretend_device/timeline.h"

namespace moonring::pretend {

class Kernel {
 public:
  explicit Kernel(std::string name) : name_(std::move(name)) {}

  // Returns a CPU tensor over the bytes of a device tensor, and records the access. All tensors of
  // one kernel must be on the same device.
  at::Tensor Sees(const at::Tensor& tensor, bool writes);
  // Begins the kernel: checks its order with work of other streams (timeline.h), and counts it.
  void Launch();
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::vector<Access> accesses_;
  c10::Device device_{c10::kCUDA, -1};
};

// Converts a CPU tensor that the kernel has just computed to a tensor of `device`.
at::Tensor ToDevice(const at::Tensor& made, c10::Device device);

// Allocates temporary memory of the size that the real kernel takes while it runs; freed when the
// returned tensor is destroyed.
at::Tensor Workspace(int64_t bytes);

// Returns whether work on this tensor is skipped (memory.h: LargeIsLeftOut).
bool IsLarge(const at::Tensor& tensor);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNEL_H_
