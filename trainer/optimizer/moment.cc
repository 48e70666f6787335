#include "trainer/optimizer/moment.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "kernels/random/counter_random.h"

namespace moonring::trainer {
namespace {

constexpr int64_t kBlock = Moment::kBlock;

// Calls f(begin, count, number of blocks) once for all whole blocks and once for an incomplete last
// block.
template <typename F>
void ForBlocks(int64_t count, const F& f) {
  const int64_t whole = count / kBlock * kBlock;
  if (whole > 0) f(int64_t{0}, whole, whole / kBlock);
  if (count > whole) f(whole, count - whole, int64_t{1});
}

at::Tensor Decoded(const at::Tensor& codes, const at::Tensor& scale, const at::Tensor& table) {
  at::Tensor values = table.index_select(0, codes.to(at::kInt));
  ForBlocks(codes.numel(), [&](int64_t begin, int64_t count, int64_t blocks) {
    values.narrow(0, begin, count)
        .view({blocks, -1})
        .mul_(scale.narrow(0, begin / kBlock, blocks).unsqueeze(1));
  });
  return values;
}

void Encode(const at::Tensor& values, const at::Tensor& table, const at::Tensor& codes,
            const at::Tensor& scale) {
  const at::Tensor borders = (table.narrow(0, 0, 255) + table.narrow(0, 1, 255)) / 2;
  ForBlocks(values.numel(), [&](int64_t begin, int64_t count, int64_t blocks) {
    const at::Tensor rows = values.narrow(0, begin, count).view({blocks, -1});
    const at::Tensor largest = rows.abs().amax(1);
    scale.narrow(0, begin / kBlock, blocks).copy_(largest);
    const at::Tensor scaled = rows / largest.masked_fill(largest.eq(0), 1).unsqueeze(1);
    codes.narrow(0, begin, count)
        .copy_(at::bucketize(scaled, borders, /*out_int32=*/true).view(-1));
  });
}

}  // namespace

at::Tensor DynamicCodes(bool is_signed) {
  constexpr int kDecades = 7;
  std::vector<float> codes = {0, 1};
  for (int decade = 0; decade < kDecades; ++decade) {
    const int parts = 1 << (is_signed ? decade : decade + 1);
    for (int part = 0; part < parts; ++part) {
      const double middle = 0.1 + 0.9 * (part + 0.5) / parts;
      const auto code = static_cast<float>(std::pow(10.0, decade - kDecades + 1) * middle);
      codes.push_back(code);
      if (is_signed) codes.push_back(-code);
    }
  }
  std::sort(codes.begin(), codes.end());
  TORCH_INTERNAL_ASSERT(codes.size() == 256);
  return at::tensor(codes, at::kFloat);
}

namespace internal {

at::Tensor RoundedOnAverage(const at::Tensor& values, uint64_t key, int64_t place) {
  constexpr int64_t kWidth = 64;
  const int64_t first = place / kWidth, end = (place + values.numel() + kWidth - 1) / kWidth;
  const at::Tensor rows = at::arange(first, end, values.options().dtype(at::kLong));
  const at::Tensor uniform = kernels::CounterUniform(key, rows, kWidth)
                                 .view({-1})
                                 .narrow(0, place - first * kWidth, values.numel());
  // Stochastic rounding to bf16: adding a random 16-bit number before truncating 16 bits carries
  // with the probability of the truncated fraction.
  at::Tensor bits = values.contiguous().view(at::kInt) + (uniform * 65536).to(at::kInt);
  return bits.bitwise_and_(static_cast<int64_t>(-65536)).view(at::kFloat).to(at::kBFloat16);
}

}  // namespace internal

int64_t Moment::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : {numbers, scale})
    bytes += tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

at::ScalarType StoredDtype(MomentDtype dtype, at::ScalarType full) {
  switch (dtype) {
    case MomentDtype::kFull:
      return full;
    case MomentDtype::kBf16:
      return at::kBFloat16;
    case MomentDtype::k8Bit:
      return at::kByte;
  }
  return full;
}

at::Tensor NewScale(int64_t numel, at::Device device) {
  return at::zeros({(numel + kBlock - 1) / kBlock}, at::TensorOptions(device).dtype(at::kFloat));
}

at::Tensor ReadMoment(const Moment& moment, int64_t begin, int64_t count) {
  const at::Tensor part = moment.numbers.view({-1}).narrow(0, begin, count);
  if (moment.dtype == MomentDtype::kFull) return part;
  if (moment.dtype == MomentDtype::kBf16) return part.to(at::kFloat);
  return Decoded(part, moment.scale.narrow(0, begin / kBlock, (count + kBlock - 1) / kBlock),
                 moment.codes);
}

void WriteMoment(const Moment& moment, int64_t begin, const at::Tensor& values, uint64_t key,
                 int64_t place) {
  const int64_t count = values.numel();
  const at::Tensor part = moment.numbers.view({-1}).narrow(0, begin, count);
  if (count == 0 || part.is_alias_of(values)) return;
  if (moment.dtype == MomentDtype::k8Bit) {
    Encode(values, moment.codes, part,
           moment.scale.narrow(0, begin / kBlock, (count + kBlock - 1) / kBlock));
  } else if (moment.dtype == MomentDtype::kBf16 && !moment.is_signed) {
    part.copy_(internal::RoundedOnAverage(values, key, place));
  } else {
    part.copy_(values);
  }
}

at::Tensor DecodedMoment(const at::Tensor& numbers, const at::Tensor& scale, bool is_signed) {
  if (numbers.scalar_type() != at::kByte) return numbers.to(at::kFloat);
  return Decoded(numbers.view({-1}), scale, DynamicCodes(is_signed));
}

}  // namespace moonring::trainer
