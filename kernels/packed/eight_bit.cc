#include "kernels/packed/eight_bit.h"

#include <algorithm>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <c10/util/accumulate.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/choice.h"
#include "kernels/packed/cpu_unpack.h"
#include "kernels/packed/parts.h"
#include "kernels/unpack.h"

namespace moonring::kernels {
namespace {

constexpr int64_t kNumbersAThread = 32768;

int64_t RowsOf(at::IntArrayRef shape) {
  return shape.empty() ? 1 : c10::multiply_integers(shape.slice(0, shape.size() - 1));
}

std::vector<PartShape> EightBitPartShapes(at::IntArrayRef shape) {
  return {{"codes", at::kChar, c10::multiply_integers(shape)},
          {"scales", at::kFloat, RowsOf(shape)}};
}

void PackRows(const at::Tensor& weight_RK, at::Tensor codes_RK, at::Tensor absmax_R) {
  const at::Tensor x = weight_RK.to(at::kHalf).to(at::kFloat);
  absmax_R.copy_(x.abs().amax(1));
  const at::Tensor absmax = absmax_R.unsqueeze(1);
  codes_RK.copy_(at::where(absmax == 0, 0.0, (x * (absmax.reciprocal() * 127.0)).round()));
}

void UnpackEightBitsByOperators(const PackedWeight& packed, at::Tensor out) {
  const at::Tensor scales = packed.parts[1].unsqueeze(1) * (1.0 / 127.0);
  out.view({scales.numel(), -1})
      .copy_(packed.parts[0].view({scales.numel(), -1}).to(at::kFloat) * scales);
}

void UnpackEightBitsOnCpu(const PackedWeight& packed, const at::Tensor& out) {
  const EightBitParts given{
      .codes = packed.parts[0].const_data_ptr<int8_t>(),
      .width = out.numel() / packed.parts[1].numel(),
      .absmax = packed.parts[1].const_data_ptr<float>(),
      .dtype = out.scalar_type(),
      .out = out.mutable_data_ptr(),
  };
  at::parallel_for(0, out.numel(), kNumbersAThread,
                   [&](int64_t begin, int64_t end) { UnpackEightBits(given, begin, end); });
}

}  // namespace

int64_t EightBitCode::PackedBytes(at::IntArrayRef shape) const {
  return BytesOf(EightBitPartShapes(shape));
}

absl::StatusOr<PackedWeight> EightBitCode::Pack(const at::Tensor& given) const {
  const absl::StatusOr<at::Tensor> weight = ToPack(name(), given);
  if (!weight.ok()) return weight.status();
  const std::vector<PartShape> shapes = EightBitPartShapes(weight->sizes());
  const at::Tensor codes = at::empty({shapes[0].size}, shapes[0].dtype),
                   absmax = at::empty({shapes[1].size}, shapes[1].dtype);
  const int64_t rows = absmax.numel();
  if (codes.numel() > 0) {
    const int64_t width = codes.numel() / rows,
                  at_a_time = std::max<int64_t>(1, (int64_t{1} << 20) / width);
    for (int64_t row = 0; row < rows; row += at_a_time) {
      const int64_t count = std::min(at_a_time, rows - row);
      PackRows(weight->view({rows, width}).narrow(0, row, count),
               codes.view({rows, width}).narrow(0, row, count), absmax.narrow(0, row, count));
    }
  } else {
    absmax.zero_();
  }
  if (!absmax.isfinite().all().item<bool>()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": a weight of shape [", absl::StrJoin(given.sizes(), ", "), "] in ",
                     c10::toString(given.scalar_type()), " has numbers that fp16 does not hold"));
  }
  return PackedWeight{{codes.to(given.device()), absmax.to(given.device())}, given.sizes().vec()};
}

void EightBitCode::Unpack(const PackedWeight& packed, at::Tensor& out) const {
  CheckParts(name(), EightBitPartShapes(packed.shape), packed, out);
  if (out.numel() == 0) return;
  if (out.is_cpu()) {
    UnpackEightBitsOnCpu(packed, out);
  } else if (kernels::UseKernel(out, kernels::kUnpackEightBits)) {
    kernels::UnpackEightBits(out, packed.parts[0], packed.parts[1]);
  } else {
    UnpackEightBitsByOperators(packed, out);
  }
}

}  // namespace moonring::kernels
