#ifndef MOONRING_ATTENTION_KERNEL_TIMING_H_
#define MOONRING_ATTENTION_KERNEL_TIMING_H_

// Flash attention beside cuDNN's, timed at a run's start for a model's heads: forward and backward
// of one causal document of each length.
//
// cuDNN's numbers are held against flash attention's at each length; where they are not the same up
// to rounding, or the operator refuses, it has no times there nor further on and is not chosen.
// Waits for the device; nothing after it does. Memory: that of one layer's attention at the
// greatest length; where there is none for that, it and greater ones are left out. On an H100 1.2 s
// for 32 heads of 128.

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
