#include "kernels/packed/four_bit.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <c10/util/accumulate.h>

#include "absl/strings/str_cat.h"
#include "base/threads/parallel_tasks.h"
#include "kernels/choice.h"
#include "kernels/packed/cpu_unpack.h"
#include "kernels/packed/parts.h"
#include "kernels/packed/steps.h"
#include "kernels/unpack.h"

namespace moonring::kernels {
namespace {

constexpr float kLeastScale = 1e-38f;
constexpr int64_t kBlocksAThread = 512;  // 32768 numbers

int64_t Quotient(int64_t n, int64_t by) { return (n + by - 1) / by; }

const FourBitSteps& StepsOf(FourBits bits) {
  return bits == FourBits::kNf4 ? Nf4Steps() : Fp4Steps();
}

std::vector<PartShape> FourBitPartShapes(int64_t numel, bool double_quantised) {
  const int64_t blocks = Quotient(numel, kFourBitBlock);
  const PartShape codes{"codes", at::kByte, Quotient(numel, 2)};
  if (!double_quantised) return {codes, {"scales", at::kFloat, blocks}};
  return {codes,
          {"scales' codes", at::kByte, blocks},
          {"scales' scales", at::kFloat, Quotient(blocks, kScaleBlock)},
          {"the scales' mean", at::kFloat, 1}};
}

// --- packing ----------------------------------------------------------------

// Computes the codes of a block's numbers as fractions within [-1, 1]. If the steps are sorted in
// ascending order, the index of the step nearest to a fraction is the number of bounds below the
// fraction. Fractions after the first `count` must be 0.
void Encode(const FourBitSteps& steps, const float (&fractions)[kFourBitBlock], int64_t count,
            uint8_t* codes) {
  int32_t below[kFourBitBlock] = {};
  for (const float bound : steps.bounds) {
    for (int64_t i = 0; i < kFourBitBlock; ++i) below[i] += fractions[i] > bound ? 1 : 0;
  }
  for (int64_t i = 0; i < count; i += 2)
    codes[i / 2] = static_cast<uint8_t>(steps.order[below[i]] << 4 | steps.order[below[i + 1]]);
}

// Packs blocks [begin, end); returns false if a number is not finite.
template <typename T>
bool PackBlocks(const FourBitSteps& steps, const T* weight, int64_t numel, int64_t begin,
                int64_t end, uint8_t* codes, float* absmax) {
  bool finite = true;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t at = block * kFourBitBlock, count = std::min(kFourBitBlock, numel - at);
    float x[kFourBitBlock] = {}, largest = 0.0f;
    for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(weight[at + i]);
    for (const float number : x) {
      finite &= std::fabs(number) <= std::numeric_limits<float>::max();
      largest = std::max(largest, std::fabs(number));
    }
    const float least = std::max(largest, kLeastScale), inverse = 1.0f / least;
    const bool whole = count == kFourBitBlock;
    absmax[block] = whole ? largest : least;
    for (float& number : x)
      number = std::clamp(whole ? number * inverse : number / least, -1.0f, 1.0f);
    Encode(steps, x, count, codes + at / 2);
  }
  return finite;
}

bool PackNumbers(const FourBitSteps& steps, const at::Tensor& weight, uint8_t* codes,
                 float* absmax) {
  const int64_t numel = weight.numel();
  std::atomic<bool> finite{true};
  const auto pack = [&](const auto* numbers) {
    at::parallel_for(0, Quotient(numel, kFourBitBlock), kBlocksAThread,
                     [&](int64_t begin, int64_t end) {
                       if (!PackBlocks(steps, numbers, numel, begin, end, codes, absmax))
                         finite = false;
                     });
  };
  switch (weight.scalar_type()) {
    case at::kBFloat16:
      pack(weight.const_data_ptr<c10::BFloat16>());
      break;
    case at::kHalf:
      pack(weight.const_data_ptr<c10::Half>());
      break;
    default:
      pack(weight.const_data_ptr<float>());
  }
  return finite;
}

// The mean by LibTorch, computed in one thread, because the last bits of LibTorch's mean depend on
// the number of threads.
at::Tensor MeanOf(const at::Tensor& absmax) {
  at::Tensor mean;
  base::RunParallelTasks({1.0}, [&](int64_t) { mean = absmax.mean().view({1}); });
  return mean;
}

// Packs the blocks' scales minus their mean (`given`) into codes, and writes the largest absolute
// value of each block of them to `scales`.
void PackScales(const at::Tensor& given, at::Tensor codes, at::Tensor scales) {
  const auto places = std::make_unique<DynamicPlaces>();
  const float* x = given.const_data_ptr<float>();
  uint8_t* out = codes.mutable_data_ptr<uint8_t>();
  float* absmax = scales.mutable_data_ptr<float>();
  for (int64_t begin = 0; begin < given.numel(); begin += kScaleBlock) {
    const int64_t end = std::min(begin + kScaleBlock, given.numel());
    float largest = 0.0f;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    absmax[begin / kScaleBlock] = largest;
    const float inverse = 1.0f / largest;
    for (int64_t i = begin; i < end; ++i)
      out[i] = largest == 0.0f ? 0 : places->CodeOf(std::clamp(x[i] * inverse, -1.0f, 1.0f));
  }
}

// --- unpacking by LibTorch's operators ---------------------------------------

at::Tensor OnDevice(at::ArrayRef<float> numbers, const at::Device& device) {
  return at::from_blob(const_cast<float*>(numbers.data()), {static_cast<int64_t>(numbers.size())},
                       at::kFloat)
      .to(device, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor ScalesByOperators(const PackedWeight& packed) {
  const std::vector<at::Tensor>& parts = packed.parts;
  if (parts.size() == 2) return parts[1];
  const at::Tensor fractions =
      OnDevice(DynamicSteps(), parts[1].device()).index_select(0, parts[1].to(at::kInt));
  return fractions * parts[2].repeat_interleave(kScaleBlock).narrow(0, 0, fractions.numel()) +
         parts[3];
}

void UnpackFourBitsByOperators(const FourBitSteps& steps, const PackedWeight& packed,
                               at::Tensor out) {
  constexpr int64_t kAtATime = int64_t{1} << 24;  // each needs 16 bytes of temporaries
  const at::Tensor scales = ScalesByOperators(packed),
                   numbers = OnDevice(steps.steps, out.device()), flat = out.view({-1});
  for (int64_t begin = 0; begin < flat.numel(); begin += kAtATime) {
    const int64_t count = std::min(kAtATime, flat.numel() - begin);
    const at::Tensor both = packed.parts[0].narrow(0, begin / 2, Quotient(count, 2)),
                     codes = at::stack({both.div(16, "floor"), both.remainder(16)}, 1)
                                 .view({-1})
                                 .narrow(0, 0, count)
                                 .to(at::kInt),
                     scale =
                         scales.narrow(0, begin / kFourBitBlock, Quotient(count, kFourBitBlock));
    flat.narrow(0, begin, count)
        .copy_(numbers.index_select(0, codes) *
               scale.repeat_interleave(kFourBitBlock).narrow(0, 0, count));
  }
}

void UnpackFourBitsOnCpu(const FourBitSteps& steps, const PackedWeight& packed,
                         const at::Tensor& out) {
  const std::vector<at::Tensor>& parts = packed.parts;
  const bool twice = parts.size() == 4;
  const FourBitParts given{
      .codes = parts[0].const_data_ptr<uint8_t>(),
      .count = out.numel(),
      .steps = steps.steps.data(),
      .absmax = parts[twice ? 2 : 1].const_data_ptr<float>(),
      .absmax_codes = twice ? parts[1].const_data_ptr<uint8_t>() : nullptr,
      .scale_steps = twice ? DynamicSteps().data() : nullptr,
      .mean = twice ? *parts[3].const_data_ptr<float>() : 0.0f,
      .dtype = out.scalar_type(),
      .out = out.mutable_data_ptr(),
  };
  at::parallel_for(0, Quotient(out.numel(), kFourBitBlock), kBlocksAThread,
                   [&](int64_t begin, int64_t end) { UnpackFourBits(given, begin, end); });
}

}  // namespace

std::string FourBitCode::name() const {
  const std::string plain = bits_ == FourBits::kNf4 ? "nf4" : "fp4";
  return double_quantised_ ? plain + " double" : plain;
}

int64_t FourBitCode::PackedBytes(at::IntArrayRef shape) const {
  return BytesOf(FourBitPartShapes(c10::multiply_integers(shape), double_quantised_));
}

absl::StatusOr<PackedWeight> FourBitCode::Pack(const at::Tensor& given) const {
  const absl::StatusOr<at::Tensor> weight = ToPack(name(), given);
  if (!weight.ok()) return weight.status();
  PackedWeight packed{{}, weight->sizes().vec()};
  for (const PartShape& part : FourBitPartShapes(weight->numel(), double_quantised_))
    packed.parts.push_back(at::empty({part.size}, part.dtype));
  at::Tensor absmax = packed.parts[1];
  if (double_quantised_) absmax = at::empty({packed.parts[1].numel()}, at::kFloat);
  if (!PackNumbers(StepsOf(bits_), *weight, packed.parts[0].mutable_data_ptr<uint8_t>(),
                   absmax.mutable_data_ptr<float>()))
    return NotFinite(name(), given);
  if (double_quantised_) {
    packed.parts[3] = absmax.numel() == 0 ? absmax.new_zeros({1}) : MeanOf(absmax);
    if (!std::isfinite(*packed.parts[3].const_data_ptr<float>())) {
      return absl::InvalidArgumentError(
          absl::StrCat(name(), ": the mean of a weight's scales is beyond fp32"));
    }
    PackScales(absmax - packed.parts[3], packed.parts[1], packed.parts[2]);
  }
  for (at::Tensor& part : packed.parts) part = part.to(given.device());
  return packed;
}

void FourBitCode::Unpack(const PackedWeight& packed, at::Tensor& out) const {
  CheckParts(name(), FourBitPartShapes(c10::multiply_integers(packed.shape), double_quantised_),
             packed, out);
  if (out.numel() == 0) return;
  const FourBitSteps& steps = StepsOf(bits_);
  if (out.is_cpu()) {
    UnpackFourBitsOnCpu(steps, packed, out);
  } else if (kernels::UseKernel(out, kernels::kUnpackFourBits)) {
    kernels::UnpackFourBits(out, packed.parts, steps.steps, DynamicSteps());
  } else {
    UnpackFourBitsByOperators(steps, packed, out);
  }
}

}  // namespace moonring::kernels
