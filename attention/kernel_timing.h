#ifndef MOONRING_ATTENTION_KERNEL_TIMING_H_
#define MOONRING_ATTENTION_KERNEL_TIMING_H_

// Flash attention beside cuDNN's, timed at a run's start for a model's heads: forward and backward
// of one causal document of each length.
//
// cuDNN's results are compared with flash attention's at each length. Where they differ by more
// than rounding, or cuDNN refuses, cuDNN gets no time at that length or any longer one, and is then
// chosen for none. Synchronizes with the device. Memory: one layer's attention at the longest
// length; lengths for which that does not fit are left out, with all longer ones. 1.5 s on an H100
// for 32 heads of dim 128.

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "attention/kernel_choice.h"

namespace moonring::attention {

struct KernelShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  at::ScalarType dtype = at::kBFloat16;
};

// Whether there is a choice at all.
bool CudnnTakes(const KernelShape& shape);

// Seconds of some work on a device: of the first time, and of the least of further ones.
struct Laps {
  double first = 0, least = 0;
};
using Stopwatch = std::function<Laps(const std::function<void()>& work)>;

// One run and three more, each waited for.
Stopwatch DeviceStopwatch(const at::Device& device);

std::vector<KernelTiming> TimeKernels(const KernelShape& shape, absl::Span<const int64_t> lengths,
                                      const at::Device& device, const Stopwatch& stopwatch);

// 2k, 8k and 32k, as far as documents reach. None where they are shorter: flash takes those.
std::vector<int64_t> LengthsToTime(int64_t longest);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNEL_TIMING_H_
