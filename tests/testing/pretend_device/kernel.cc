#include "tests/testing/pretend_device/kernel.h"

#include <cstring>
#include <utility>

#include <ATen/EmptyTensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tests/testing/pretend_device/counts.h"
#include "tests/testing/pretend_device/memory.h"

namespace moonring::pretend {
namespace {

// Returns a CPU storage over the bytes of a device storage. A kernel that enlarges its output gets
// CPU memory from it, which the caller copies to the device (kernels.cc).
c10::Storage SeenStorage(const c10::Storage& storage) {
  const Block* const block = BlockOf(storage);
  void* const bytes = block == nullptr ? nullptr : ForKernels(storage.mutable_data());
  return {c10::Storage::use_byte_size_t(), storage.nbytes(), c10::DataPtr(bytes, c10::kCPU),
          c10::GetAllocator(c10::kCPU), /*resizable=*/true};
}

}  // namespace

at::Tensor Kernel::Sees(const at::Tensor& tensor, bool writes) {
  TORCH_CHECK(device_.index() < 0 || tensor.device() == device_, name_,
              ": Expected all tensors to be on the same device, but found at least two devices, ",
              device_, " and ", tensor.device(), "!");
  device_ = tensor.device();
  Block* const block = BlockOf(tensor.storage());
  if (block != nullptr && tensor.numel() > 0) {
    int64_t last = tensor.storage_offset();  // element
    for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
    const int64_t element = tensor.element_size();
    accesses_.push_back(
        {&block->uses, tensor.storage_offset() * element, (last + 1) * element, writes});
  }
  at::Tensor seen = at::detail::make_tensor<c10::TensorImpl>(
      SeenStorage(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl* const impl = seen.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return seen;
}

void Kernel::Launch() {
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  const c10::Device device = device_.index() < 0 ? guard.getDevice() : device_;
  pretend::Launch(guard.getStream(device), accesses_, name_.c_str());
  CountKernel(name_);
}

at::Tensor ToDevice(const at::Tensor& made, c10::Device device) {
  const c10::DeviceGuard guard(device);
  const at::Tensor there = at::detail::empty_strided_generic(
      made.sizes(), made.strides(), c10::GetAllocator(c10::kCUDA),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), made.scalar_type());
  Kernel kernel("result");
  const at::Tensor seen = kernel.Sees(there, /*writes=*/true);
  if (made.numel() > 0 && !IsLarge(there))
    std::memcpy(seen.mutable_data_ptr(), made.const_data_ptr(), there.storage().nbytes());
  return there;
}

bool IsLarge(const at::Tensor& tensor) {
  return LargeIsLeftOut() && tensor.is_floating_point() && tensor.numel() > 1;
}

at::Tensor Workspace(int64_t bytes) {
  return at::detail::empty_generic({bytes}, c10::GetAllocator(c10::kCUDA),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA), at::kByte,
                                   std::nullopt);
}

}  // namespace moonring::pretend
