#ifndef MOONRING_TRAINER_HOST_SUMS_H_
#define MOONRING_TRAINER_HOST_SUMS_H_

// Sums of a GPU's gradients in pinned memory of its host: a gradient leaves the GPU as soon as it
// is made.
//
//   first of a step   the gradient is copied over it
//   a later one       in pieces of kPiece numbers: the piece of the sum comes to the GPU, the
//                     gradient is added there, and it goes back
//
// Added on the GPU because the host's memory then moves 2 bytes a byte of gradient and not 4 (a
// staging buffer written, it and the sum read, the sum written), and because the host need not wait
// for anything to add it. One stream brings and adds, another takes back, so both directions of the
// bus are in use. A gradient of another dtype is cast in these pieces. The numbers are those of
// sum.add_(gradient) on the GPU, bit for bit.
//
// GPU memory: kBuffers pieces of the sum's dtype, and gradients that are still being read: with
// `leaving_bytes` of a block's, a block's and those that are being made. The stream that computes
// waits for their copies only beyond that. The host waits in Wait() alone. Bus: 4 bytes a number
// out, of a later one 4 in besides.

#include <array>
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include "base/memory/side_stream.h"

namespace moonring::trainer {

// Of one weight.
struct HostSum {
  at::Tensor numbers;  // pinned, contiguous, one-dimensional
  bool any = false;    // since the step began
  std::optional<c10::Event> written;
};

class HostSums {
 public:
  static constexpr int64_t kPiece = int64_t{1} << 23;  // 32 MiB of fp32

  // `device`: whose gradients they are.
  HostSums(c10::Device device, int64_t leaving_bytes, int64_t piece = kPiece);
  ~HostSums();

  // Adds `gradient` (contiguous, of any shape and floating dtype) to the numbers from `begin` on.
  // The parts of a sum come in order: with its last one there is something to add to.
  void Add(HostSum& sum, int64_t begin, const at::Tensor& gradient);

  // Until then the host reads no sum. After it the GPU holds no gradient for this.
  void Wait();

 private:
  static constexpr size_t kBuffers = 2;
  struct Buffer {
    at::Tensor numbers;
    std::optional<c10::Event> free;
  };
  // Through a buffer on the GPU.
  void AddPiece(const at::Tensor& sum, const at::Tensor& gradient, bool any);

  const int64_t leaving_bytes_, piece_;
  base::SideStream in_, out_;
  std::array<Buffer, kBuffers> buffers_;
  size_t next_ = 0;
  base::Leaving leaving_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_HOST_SUMS_H_
