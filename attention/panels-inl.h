// Products of small fp32 matrices that stay in a core's caches: register tiles of 8 x 2 vectors (4
// x 2 where there are 16 registers) over a right side that is laid out in panels (Goto and van de
// Geijn 2008, "Anatomy of high-performance matrix multiplication"). An element of a result is one
// sum over the depth, in its order, whatever rows and columns are beside it.
//
// Compiled once for each kind of CPU, by whoever includes it between Highway's own headers.

#if defined(MOONRING_ATTENTION_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONRING_ATTENTION_PANELS_INL_H_
#undef MOONRING_ATTENTION_PANELS_INL_H_
#else
#define MOONRING_ATTENTION_PANELS_INL_H_
#endif

#include <cstdint>
#include <new>

#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonring::attention {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

constexpr int64_t kLanes = hn::MaxLanes(Floats());
constexpr int64_t kPanel = 2 * kLanes;  // columns
constexpr int kRegisterRows =
    kLanes >= 16 ? 8 : 4;  // as many as 32, or 16, registers hold with two vectors each

using Scratch = hwy::AlignedFreeUniquePtr<float[]>;

inline Scratch MakeScratch(int64_t floats) {
  Scratch scratch = hwy::AllocateAligned<float>(floats);
  if (scratch == nullptr) throw std::bad_alloc();
  return scratch;
}

inline int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }

// The right side of a product, [depth, columns], as panels of kPanel columns, the last filled up
// with zeros: [panels][depth][kPanel].
class Panels {
 public:
  Panels(int64_t depth, int64_t columns)
      : depth_(depth),
        panels_(RoundUp(columns, kPanel) / kPanel),
        data_(MakeScratch(depth * width())) {}

  int64_t width() const { return panels_ * kPanel; }
  int64_t panels() const { return panels_; }
  const float* At(int64_t panel, int64_t row) const {
    return data_.get() + (panel * depth_ + row) * kPanel;
  }

  // From `rows` rows of [rows, columns].
  void PackRows(const float* from, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t panel = 0; panel < panels_; ++panel) {
      const int64_t first = panel * kPanel, count = Min(kPanel, columns - first);
      for (int64_t row = 0; row < rows; ++row) {
        float* to = Mutable(panel, row);
        for (int64_t c = 0; c < count; ++c) to[c] = from[row * stride + first + c];
        for (int64_t c = count; c < kPanel; ++c) to[c] = 0.0f;
      }
    }
  }

  // From the transpose: [columns, depth].
  void PackColumns(const float* from, int64_t stride, int64_t columns) {
    for (int64_t c = 0; c < width(); ++c) {
      float* to = Mutable(c / kPanel, 0) + c % kPanel;
      for (int64_t row = 0; row < depth_; ++row)
        to[row * kPanel] = c < columns ? from[c * stride + row] : 0.0f;
    }
  }

 private:
  float* Mutable(int64_t panel, int64_t row) {
    return data_.get() + (panel * depth_ + row) * kPanel;
  }

  int64_t depth_, panels_;
  Scratch data_;
};

// The left side of a product: element (row, k) at data[row * row_stride + k * depth_stride].
struct Left {
  const float* data;
  int64_t row_stride;
  int64_t depth_stride;
  int64_t rows;
};

template <int kRows>
void MultiplyTile(const float* a, const Left& left, const float* b, int64_t depth, float* c,
                  int64_t stride, bool add) {
  const Floats f;
  Vector sums[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sums[r][0] = add ? hn::Load(f, c + r * stride) : hn::Zero(f);
    sums[r][1] = add ? hn::Load(f, c + r * stride + kLanes) : hn::Zero(f);
  }
  for (int64_t k = 0; k < depth; ++k, a += left.depth_stride, b += kPanel) {
    const Vector b0 = hn::Load(f, b), b1 = hn::Load(f, b + kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector one = hn::Set(f, a[r * left.row_stride]);
      sums[r][0] = hn::MulAdd(one, b0, sums[r][0]);
      sums[r][1] = hn::MulAdd(one, b1, sums[r][1]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    hn::Store(sums[r][0], f, c + r * stride);
    hn::Store(sums[r][1], f, c + r * stride + kLanes);
  }
}

// Fewer rows than a register tile's, one size after another.
template <int kRows>
void MultiplyLast(int64_t rows, const float* a, const Left& left, const float* b, int64_t depth,
                  float* c, int64_t stride, bool add) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return MultiplyTile<kRows>(a, left, b, depth, c, stride, add);
    MultiplyLast<kRows - 1>(rows, a, left, b, depth, c, stride, add);
  }
}

// C (+)= A B of rows [row, row + depth) and panels [first, end) of B; C has a panel's alignment,
// its column 0 is that of `first`.
inline void Multiply(const Left& left, const Panels& right, int64_t row, int64_t depth,
                     int64_t first, int64_t end, float* c, int64_t stride, bool add) {
  for (int64_t panel = first; panel < end; ++panel) {
    const float* b = right.At(panel, row);
    float* of_panel = c + (panel - first) * kPanel;
    int64_t r = 0;
    for (; r + kRegisterRows <= left.rows; r += kRegisterRows) {
      MultiplyTile<kRegisterRows>(left.data + r * left.row_stride, left, b, depth,
                                  of_panel + r * stride, stride, add);
    }
    MultiplyLast<kRegisterRows - 1>(left.rows - r, left.data + r * left.row_stride, left, b, depth,
                                    of_panel + r * stride, stride, add);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moonring::attention
HWY_AFTER_NAMESPACE();

#endif  // MOONRING_ATTENTION_PANELS_INL_H_
