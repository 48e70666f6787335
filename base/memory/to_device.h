#ifndef MOONRING_BASE_MEMORY_TO_DEVICE_H_
#define MOONRING_BASE_MEMORY_TO_DEVICE_H_

// Numbers of the host to a device without waiting for it: the one way by which what a forward or
// backward makes on the host (ids, positions, indices, offsets) goes to a GPU.
//
// They are put into pinned memory and copied from there behind what the current stream has been
// given so far. The host goes on at once; LibTorch's pinned allocator holds the memory until the
// copy is done. A tensor that is pinned already is copied as it is, and must not be written to
// after. To the CPU, and for a tensor that is not on the host, there is no such copy. Cost: one
// copy on the host, one operator and one transfer.

#include <algorithm>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace moonring::base {

// `tensor` itself where it is there already. "cuda" without an index is the current GPU.
at::Tensor ToDevice(const at::Tensor& tensor, c10::Device device);

// An uninitialised tensor of the host from which ToDevice copies as it is: pinned, where `device`
// is not the CPU.
at::Tensor HostTensorFor(c10::Device device, at::IntArrayRef sizes, at::ScalarType dtype);

// [n]
template <typename Number>
at::Tensor ToDevice(const std::vector<Number>& numbers, c10::Device device) {
  const at::Tensor host = HostTensorFor(device, {static_cast<int64_t>(numbers.size())},
                                        c10::CppTypeToScalarType<Number>::value);
  std::copy(numbers.begin(), numbers.end(), host.mutable_data_ptr<Number>());
  return ToDevice(host, device);
}

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_TO_DEVICE_H_
