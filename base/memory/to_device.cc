#include "base/memory/to_device.h"

#include <ATen/ops/empty.h>

namespace moonring::base {

at::Tensor ToDevice(const at::Tensor& tensor, c10::Device device) {
  if (device.is_cpu() || !tensor.is_cpu()) return tensor.to(device);
  if (tensor.is_pinned()) return tensor.to(device, /*non_blocking=*/true);
  const at::Tensor pinned = HostTensorFor(device, tensor.sizes(), tensor.scalar_type());
  pinned.copy_(tensor);
  return pinned.to(device, /*non_blocking=*/true);
}

at::Tensor HostTensorFor(c10::Device device, at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions(at::kCPU).dtype(dtype).pinned_memory(!device.is_cpu()));
}

}  // namespace moonring::base
