#include "kernels/products/dot_tiles.h"

#include <cmath>
#include <cstring>

// Highway compiles the code between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each kind
// of CPU that is not disabled here.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/products/dot_tiles.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonring::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

HWY_INLINE Vector Load(const float* from) { return hn::LoadU(Floats(), from); }
HWY_INLINE Vector Load(const uint16_t* from) {
  const hn::Rebind<uint16_t, Floats> bits;
  const hn::Rebind<hwy::bfloat16_t, Floats> narrow;
  return hn::PromoteTo(Floats(), hn::BitCast(narrow, hn::LoadU(bits, from)));
}
inline float One(const float* from) { return *from; }
inline float One(const uint16_t* from) {
  const uint32_t bits = uint32_t{*from} << 16;
  float number;
  std::memcpy(&number, &bits, sizeof(number));
  return number;
}

template <int kRows, int kColumns, typename Number>
HWY_INLINE void Tile(const float* x, const Number* w, int64_t depth, float* result,
                     int64_t stride) {
  const Floats f;
  const int64_t lanes = hn::Lanes(f), whole = depth / lanes * lanes;
  Vector sums[kRows][kColumns];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(f);
  }
  for (int64_t k = 0; k < whole; k += lanes) {
    Vector of_w[kColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) of_w[c] = Load(w + c * depth + k);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector of_x = Load(x + r * depth + k);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::MulAdd(of_x, of_w[c], sums[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      float sum = hn::GetLane(hn::SumOfLanes(f, sums[r][c]));
      for (int64_t k = whole; k < depth; ++k)
        sum = std::fma(x[r * depth + k], One(w + c * depth + k), sum);
      result[r * stride + c] = sum;
    }
  }
}

template <int kRows, int kColumns, typename Number>
void LastRows(const float* x, int64_t rows, const Number* w, int64_t depth, float* result,
              int64_t stride) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return Tile<kRows, kColumns>(x, w, depth, result, stride);
    LastRows<kRows - 1, kColumns>(x, rows, w, depth, result, stride);
  }
}

template <int kColumns, typename Number>
void Columns(const float* x, int64_t rows, const Number* w, int64_t depth, float* result,
             int64_t stride) {
  constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows)
    Tile<kRows, kColumns>(x + r * depth, w, depth, result + r * stride, stride);
  LastRows<kRows - 1, kColumns>(x + r * depth, rows - r, w, depth, result + r * stride, stride);
}

template <typename Number>
void Run(const float* x, int64_t rows, const Number* w, int64_t columns, int64_t depth,
         float* result, int64_t stride) {
  constexpr int kColumns = 4;
  int64_t c = 0;
  for (; c + kColumns <= columns; c += kColumns)
    Columns<kColumns>(x, rows, w + c * depth, depth, result + c, stride);
  for (; c < columns; ++c) Columns<1>(x, rows, w + c * depth, depth, result + c, stride);
}

void RunFloat(const float* x, int64_t rows, const float* w, int64_t columns, int64_t depth,
              float* result, int64_t stride) {
  Run(x, rows, w, columns, depth, result, stride);
}
void RunBf16(const float* x, int64_t rows, const uint16_t* w, int64_t columns, int64_t depth,
             float* result, int64_t stride) {
  Run(x, rows, w, columns, depth, result, stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonring::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonring::kernels {
HWY_EXPORT(RunFloat);
HWY_EXPORT(RunBf16);

void DotTiles(const float* x, int64_t rows, const float* w, int64_t columns, int64_t depth,
              float* result, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(RunFloat)(x, rows, w, columns, depth, result, stride);
}

void DotTiles(const float* x, int64_t rows, const uint16_t* w, int64_t columns, int64_t depth,
              float* result, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(RunBf16)(x, rows, w, columns, depth, result, stride);
}

}  // namespace moonring::kernels
#endif
