#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNEL_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNEL_H_

// One kernel of the pretend device: it sees the device's tensors as tensors of the CPU over the
// same bytes, and has its place in the current stream.

#include <vector>

#include <ATen/core/Tensor.h>

#include "tests/testing/pretend_device/timeline.h"

namespace moonring::pretend {

class Kernel {
 public:
  explicit Kernel(std::string name) : name_(std::move(name)) {}

  // A tensor of the device as the kernel sees it. It must be on the device of those before.
  at::Tensor Sees(const at::Tensor& tensor, bool writes);
  // Begins: its place in the stream is checked (timeline.h), and it is counted.
  void Launch();
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::vector<Access> accesses_;
  c10::Device device_{c10::kCUDA, -1};
};

// An operator's result on the CPU, which the kernel has just made, as a tensor of `device`.
at::Tensor ToDevice(const at::Tensor& made, c10::Device device);

// Memory that a kernel takes for itself while it runs, as the real ones do; freed by the result's
// end.
at::Tensor Workspace(int64_t bytes);

// Whether work on it is left out (memory.h: LargeIsLeftOut).
bool IsLarge(const at::Tensor& tensor);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_KERNEL_H_
