#ifndef MOONRING_ATTENTION_KERNELS_KERNEL_TIMING_H_
#define MOONRING_ATTENTION_KERNELS_KERNEL_TIMING_H_

// Times flash attention and cuDNN's attention at a run's start for a model's heads: forward and
// backward of one causal document of each length.
//
// cuDNN's results are compared with flash attention's at each length. Where they differ by more
// than rounding, or cuDNN refuses, cuDNN gets no time at this or any longer length and is not
// chosen for them. Synchronizes with the device. Memory: one layer's attention at the longest
// length. If the memory is not sufficient for a length, this and all longer lengths are skipped.
// Takes 1.5 s on an H100 for 32 heads of dim 128.

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "attention/kernels/kernel_choice.h"

namespace moonring::attention {

struct KernelShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  at::ScalarType dtype = at::kBFloat16;
};

// Whether cuDNN supports the shape at all. If not, flash attention is used without timing.
bool CudnnTakes(const KernelShape& shape);

// Times of some work on a device, in seconds: that of the first run, and the least of the later
// runs.
struct Laps {
  double first = 0, least = 0;
};
using Stopwatch = std::function<Laps(const std::function<void()>& work)>;

// Times one run and then three more, with a device synchronization around each.
Stopwatch DeviceStopwatch(const at::Device& device);

std::vector<KernelTiming> TimeKernels(const KernelShape& shape, absl::Span<const int64_t> lengths,
                                      const at::Device& device, const Stopwatch& stopwatch);

// The lengths 2k, 8k and 32k that do not exceed `longest`, the length of the longest document.
// Empty where `longest` is below 2k; flash attention is then used for all documents.
std::vector<int64_t> LengthsToTime(int64_t longest);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_KERNEL_TIMING_H_
