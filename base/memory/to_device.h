#ifndef MOONRING_BASE_MEMORY_TO_DEVICE_H_
#define MOONRING_BASE_MEMORY_TO_DEVICE_H_

// Copies numbers from the host to a device without waiting. Everything that a forward or backward
// computes on the host (ids, positions, indices, offsets) goes to the GPU this way.
//
// The numbers are put into pinned memory, and the copy from there is queued on the current stream.
// The host continues at once; LibTorch's pinned allocator keeps the memory until the copy is done.
// A tensor that is already pinned is copied directly and must not be written afterwards. For the
// CPU as target, or a tensor that is not on the host, this is a plain Tensor::to. Cost: one copy on
// the host, one operator and one transfer.

#include <algorithm>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace moonring::base {

// Returns `tensor` itself if it is already there. "cuda" without an index is the current GPU.
at::Tensor ToDevice(const at::Tensor& tensor, c10::Device device);

// An uninitialized host tensor that ToDevice copies directly: pinned, if `device` is not the CPU.
at::Tensor HostTensorFor(c10::Device device, at::IntArrayRef sizes, at::ScalarType dtype);

// Returns a tensor [n].
template <typename Number>
at::Tensor ToDevice(const std::vector<Number>& numbers, c10::Device device) {
  const at::Tensor host = HostTensorFor(device, {static_cast<int64_t>(numbers.size())},
                                        c10::CppTypeToScalarType<Number>::value);
  std::copy(numbers.begin(), numbers.end(), host.mutable_data_ptr<Number>());
  return ToDevice(host, device);
}

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_TO_DEVICE_H_
