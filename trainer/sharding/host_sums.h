#ifndef MOONRING_TRAINER_SHARDING_HOST_SUMS_H_
#define MOONRING_TRAINER_SHARDING_HOST_SUMS_H_

// Accumulates a GPU's gradients in pinned host memory: a gradient leaves the GPU as soon as it is
// computed.
//
//   first of a step   the gradient is copied to the host
//   later ones        in pieces of kPiece elements: the piece of the sum is copied to the GPU, the
//                     gradient is added there, and the result is copied back
//
// The addition is on the GPU because host memory traffic is then 2 bytes per byte of gradient
// instead of 4 (write to a staging buffer, read it and the sum, write the sum), and because the
// host need not wait to add. One stream copies to the GPU and adds, another copies back, so both
// directions of the bus are used. A gradient of another dtype is cast piecewise. The results are
// bit for bit those of sum.add_(gradient) on the GPU.
//
// GPU memory: kBuffers pieces in the sum's dtype, and the gradients that are still being copied.
// The compute stream waits for copies only if more than `leaving_bytes` of gradients are being
// copied. If `leaving_bytes` is the size of one transformer block's gradients, the GPU therefore
// keeps at most one block's gradients in addition to those being computed. The host waits only in
// Wait(). Bus traffic per element: 4 bytes to the host, and for later gradients 4 bytes to the GPU.

#include <array>
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include "base/memory/side_stream.h"

namespace moonring::trainer {

// The sum of one weight's gradients.
struct HostSum {
  at::Tensor numbers;  // pinned, contiguous, one-dimensional
  bool any = false;    // whether a gradient was added in this step
  std::optional<c10::Event> written;
};

class HostSums {
 public:
  static constexpr int64_t kPiece = int64_t{1} << 23;  // 32 MiB of fp32

  // `device`: the device of the gradients.
  HostSums(c10::Device device, int64_t leaving_bytes, int64_t piece = kPiece);
  ~HostSums();

  // Adds `gradient` (contiguous, any shape and floating dtype) to the elements from `begin` on.
  // Sections of a sum must be added in order; the last one marks the sum as present (`any`).
  void Add(HostSum& sum, int64_t begin, const at::Tensor& gradient);

  // Waits for all copies. The host must not read a sum before Wait() has returned. Afterwards, this
  // object keeps no gradient on the GPU.
  void Wait();

 private:
  static constexpr size_t kBuffers = 2;
  struct Buffer {
    at::Tensor numbers;
    std::optional<c10::Event> free;
  };
  // Adds a piece of a gradient to the sum's piece, in a buffer on the GPU. `any`: whether the sum
  // already has a value; otherwise the gradient is copied.
  void AddPiece(const at::Tensor& sum, const at::Tensor& gradient, bool any);

  const int64_t leaving_bytes_, piece_;
  base::SideStream in_, out_;
  std::array<Buffer, kBuffers> buffers_;
  size_t next_ = 0;
  base::Leaving leaving_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_HOST_SUMS_H_
