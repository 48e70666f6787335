#include "attention/kernels/kernel_timing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linspace.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "absl/time/clock.h"
#include "attention/kernels/cuda_varlen_attention.h"
#include "attention/kernels/cudnn_attention.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {
namespace {

constexpr int64_t kLengths[] = {2048, 8192, 32768}, kWarmUp = 192;
// The greatest accepted relative difference between the two kernels' results. Both kernels round
// out, p and ds to 16 bits, which differs by about 5e-3. A wrong mask or scale would differ by more
// than 0.1.
constexpr double kMostDifference = 3e-2;

struct Example {
  VarlenTiles tiles;
  at::Tensor dout;
};

// Test data without a random generator, whose state would change the run's later random numbers.
at::Tensor SineWaves(int64_t rows, int64_t heads, const KernelShape& shape, double frequency,
                     const at::Device& device) {
  const int64_t numel = rows * heads * shape.head_dim;
  return at::linspace(0, frequency * static_cast<double>(numel), numel,
                      at::TensorOptions(device).dtype(at::kFloat))
      .sin_()
      .to(shape.dtype)
      .view({rows, heads, shape.head_dim});
}

Example MakeExample(const KernelShape& shape, int64_t length, const at::Device& device) {
  VarlenTiles tiles{.q_MHD = SineWaves(length, shape.heads, shape, 0.61, device),
                    .k_NKD = SineWaves(length, shape.kv_heads, shape, 0.37, device),
                    .v_NKD = SineWaves(length, shape.kv_heads, shape, 0.83, device),
                    .query_offsets = {0, length},
                    .key_offsets = {0, length},
                    .kind = TileKind::kBand,
                    .score = {1 / std::sqrt(static_cast<double>(shape.head_dim))}};
  return {std::move(tiles), SineWaves(length, shape.heads, shape, 0.53, device)};
}

std::vector<at::Tensor> RunBothWays(const VarlenAttention& attention, const Example& example) {
  const PartialAttention part = attention.Forward(example.tiles);
  const TileGradients back =
      attention.Backward(example.tiles, example.dout, part.out_MHD, part.lse_MH);
  return {part.out_MHD, part.lse_MH, back.dq_MHD, back.dk_NKD, back.dv_NKD};
}

bool Agree(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const at::Tensor x = a[i].to(at::kFloat), y = b[i].to(at::kFloat);
    const double error = x.sub(y).norm().item<double>(), norm = x.norm().item<double>();
    if (!(error <= kMostDifference * norm)) return false;
  }
  return true;
}

}  // namespace

bool CudnnTakes(const KernelShape& shape) {
  return CudnnTakes(shape.dtype, shape.head_dim, TileKind::kCausal, 0, 2, 2);
}

Stopwatch DeviceStopwatch(const at::Device& device) {
  return [device](const std::function<void()>& work) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    const auto wait = [&] { guard.synchronizeDevice(guard.getDevice().index()); };
    const auto seconds = [&] {
      wait();
      const absl::Time start = absl::Now();
      work();
      wait();
      return absl::ToDoubleSeconds(absl::Now() - start);
    };
    Laps laps{.first = seconds(), .least = INFINITY};
    for (int i = 0; i < 3; ++i) laps.least = std::min(laps.least, seconds());
    return laps;
  };
}

std::vector<KernelTiming> TimeKernels(const KernelShape& shape, absl::Span<const int64_t> lengths,
                                      const at::Device& device, const Stopwatch& stopwatch) {
  at::NoGradGuard no_grad;
  const CudaVarlenAttention flash, cudnn(KernelChoice{0}, /*falls_back=*/false);
  std::vector<int64_t> sorted(lengths.begin(), lengths.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<KernelTiming> timings;
  bool takes = CudnnTakes(shape);
  for (const int64_t length : sorted) {
    KernelTiming timing{.length = length};
    try {
      const Example example = MakeExample(shape, length, device);
      timing.flash_seconds = stopwatch([&] { RunBothWays(flash, example); }).least;
      try {
        if (takes) {
          // The very first call also loads the libraries' code, which is not part of building a
          // plan.
          if (timings.empty()) RunBothWays(cudnn, MakeExample(shape, kWarmUp, device));
          const Laps laps = stopwatch([&] { RunBothWays(cudnn, example); });
          takes = Agree(RunBothWays(flash, example), RunBothWays(cudnn, example));
          if (takes) {
            timing.cudnn_seconds = laps.least;
            timing.build_seconds = std::max(0.0, laps.first - laps.least);
          }
        }
      } catch (const c10::OutOfMemoryError&) {
        throw;
      } catch (const c10::Error&) {
        takes = false;  // this GPU or this version of cuDNN has no such kernel
      }
    } catch (const c10::OutOfMemoryError&) {
      break;
    }
    timings.push_back(timing);
  }
  return timings;
}

std::vector<int64_t> LengthsToTime(int64_t longest) {
  std::vector<int64_t> lengths;
  for (const int64_t length : kLengths) {
    if (length <= longest) lengths.push_back(length);
  }
  return lengths;
}

}  // namespace moonring::attention
