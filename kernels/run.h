#ifndef MOONRING_KERNELS_RUN_H_
#define MOONRING_KERNELS_RUN_H_

// Helpers for the sources that run kernels on tensors (*_run.cc). Each source is compiled twice:
// for the dispatch key CUDA, on the current stream, and for the key CPU, in tests.
//
//   KERNEL_OPERATORS(library) { library.impl("rms_norm", TORCH_FN(RmsNorm)); }

#include <optional>

#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "kernels/launch.h"

#ifdef MOONRING_KERNELS_ON_CUDA
#define KERNEL_OPERATORS(library) TORCH_LIBRARY_IMPL(moonring, CUDA, library)
#else
#define KERNEL_OPERATORS(library) TORCH_LIBRARY_IMPL(moonring, CPU, library)
#endif

namespace moonring::kernels::KERNEL_SIDE {

using Optional = std::optional<at::Tensor>;

inline Type TypeOf(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return Type::kFloat;
    case at::kDouble:
      return Type::kDouble;
    case at::kBFloat16:
      return Type::kBf16;
    case at::kHalf:
      return Type::kHalf;
    default:
      TORCH_CHECK(false, "a kernel of Moonring's: dtype ", dtype,
                  ", expected fp32, fp64, bf16 or fp16");
  }
}
inline Type TypeOf(const at::Tensor& tensor) { return TypeOf(tensor.scalar_type()); }

// The current stream of `tensor`'s device; null on the CPU. While this object lives, that device is
// the thread's current one, as a CUDA launch requires. Pass it to the launch function as a
// temporary object.
class StreamOf {
 public:
  explicit StreamOf(const at::Tensor& tensor) {
    if (!tensor.is_cuda()) return;
    device_.reset_device(tensor.device());
    stream_ = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(tensor.device()).native_handle();
  }
  operator void*() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  c10::OptionalDeviceGuard device_;
  void* stream_ = nullptr;
};

// Returns the tensor with its last dim contiguous, as kernels expect it; rows may have any stride.
inline at::Tensor WithWholeRows(const at::Tensor& tensor) {
  return tensor.size(-1) <= 1 || tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}

// A matrix with contiguous rows; data is null for an undefined tensor.
inline ConstRows RowsOf(const at::Tensor& matrix) {
  if (!matrix.defined()) return {};
  return {matrix.const_data_ptr(), matrix.stride(0)};
}

inline void* DataOf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr() : nullptr;
}
inline float* FloatsOf(const at::Tensor& tensor) { return static_cast<float*>(DataOf(tensor)); }

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_RUN_H_
