// Copies to, from and within the pretend device (a simulated GPU). Which of them block the host is
// taken from LibTorch 2.11's aten/src/ATen/native/cuda/Copy.cu.
//
// A copy that does not block must expose a host that does not wait for it. So a copy to the host
// fills the memory with NaN until the host has waited. For a copy to the device, the source must be
// unchanged when the host has waited (its bytes are compared); otherwise the process ends with a
// message. The device's other work on the same host memory must be ordered after the copy by an
// event.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "tests/testing/pretend_device/counts.h"
#include "tests/testing/pretend_device/device.h"
#include "tests/testing/pretend_device/kernel.h"
#include "tests/testing/pretend_device/timeline.h"
#include "tests/testing/pretend_device/work.h"

namespace moonring::pretend {
namespace {

c10::Stream StreamOf(const at::Tensor& on_device) {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(on_device.device());
}

// Returns whether both tensors are contiguous with the same dtype, so that a copy engine can copy
// the bytes without a kernel.
bool SameRun(const at::Tensor& to, const at::Tensor& from) {
  return to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
         to.strides() == from.strides() && to.is_non_overlapping_and_dense();
}

std::vector<char> RunBytes(const at::Tensor& run) {
  const auto* const begin = static_cast<const char*>(run.const_data_ptr());
  return {begin, begin + run.nbytes()};
}

void CountCopy(const char* name, const at::Tensor& to, const at::Tensor& from) {
  if (WantsReport()) CountWork(name, WorkOfCopy(to, from));
}

void Within(const at::Tensor& to, const at::Tensor& from) {
  Kernel kernel("copy_");
  const at::Tensor seen_from = kernel.Sees(from, /*writes=*/false),
                   seen_to = kernel.Sees(to, /*writes=*/true);
  kernel.Launch();
  CountCopy("copy_", to, from);
  if (!IsLarge(to)) seen_to.copy_(seen_from);
}

void RunToDevice(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  Kernel kernel("copy to device");
  const at::Tensor seen = kernel.Sees(to, /*writes=*/true);
  kernel.Launch();
  CountCopy("copy to device", to, from);
  Arrive(StreamOf(to), from.const_data_ptr(), from.nbytes(), "copy to device");
  if (!IsLarge(to)) seen.copy_(from);
  const bool waits = !non_blocking || !IsPinned(from.const_data_ptr());
  CountToDevice(static_cast<int64_t>(from.nbytes()), waits);
  if (waits) {
    CountSynchronization("copy to device");
    return HostWaits(StreamOf(to));
  }
  if (IsLarge(to)) return;
  WhenReached(StreamOf(to), from.const_data_ptr(), from.nbytes(), [from, was = RunBytes(from)] {
    if (RunBytes(from) == was) return;
    std::fprintf(stderr,
                 "pretend device: pinned memory of %zu bytes was written while it was copied to "
                 "the device\n",
                 was.size());
    std::abort();
  });
}

void RunToHost(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  Kernel kernel("copy to host");
  const at::Tensor seen = kernel.Sees(from, /*writes=*/false);
  kernel.Launch();
  CountCopy("copy to host", to, from);
  const bool waits = !non_blocking || !IsPinned(to.const_data_ptr());
  CountToHost(static_cast<int64_t>(from.nbytes()), waits);
  if (waits) {
    CountSynchronization("copy to host");
    HostWaits(StreamOf(from));
    if (!IsLarge(from)) to.copy_(seen);
    return;
  }
  Arrive(StreamOf(from), to.const_data_ptr(), to.nbytes(), "copy to host");
  if (IsLarge(from)) return;
  std::memset(to.mutable_data_ptr(), 0xFF, to.nbytes());
  WhenReached(StreamOf(from), to.const_data_ptr(), to.nbytes(), [to, arrives = RunBytes(seen)] {
    std::memcpy(to.mutable_data_ptr(), arrives.data(), arrives.size());
  });
}

at::Tensor Contiguous(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.to(dtype).contiguous();
}

// Other copies between host and device go through a contiguous tensor of the target's dtype. The
// dtype is converted on the source's side; the converted tensor is not pinned.
void ToDeviceFrom(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (SameRun(to, from)) return RunToDevice(to, from, non_blocking);
  const at::Tensor run = Contiguous(from, to.scalar_type());
  if (to.is_contiguous()) return RunToDevice(to, run, non_blocking);
  const at::Tensor there = at::empty_like(to, at::MemoryFormat::Contiguous);
  RunToDevice(there, run, non_blocking);
  Within(to, there);
}

void ToHostFrom(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (SameRun(to, from)) return RunToHost(to, from, non_blocking);
  const at::Tensor run = Contiguous(from, to.scalar_type());
  if (to.is_contiguous()) return RunToHost(to, run, non_blocking);
  const at::Tensor here = at::empty_like(to, at::MemoryFormat::Contiguous);
  RunToHost(here, run, /*non_blocking=*/false);
  to.copy_(here);
}

at::Tensor& Copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.is_same(source)) return self;
  const at::Tensor from = source.expand_as(self);
  if (self.numel() == 0) return self;
  if (self.is_cuda() && from.is_cuda()) {
    Within(self, from);
  } else if (self.is_cuda()) {
    ToDeviceFrom(self, from, non_blocking);
  } else {
    ToHostFrom(self, from, non_blocking);
  }
  return self;
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) { library.impl("copy_", TORCH_FN(Copy)); }

}  // namespace
}  // namespace moonring::pretend
