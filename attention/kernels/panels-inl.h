// Products of small matrices that stay in a core's caches. A register tile has 8 x 2 vectors (4 x 2
// on CPUs with 16 vector registers); the right factor is packed in panels (Goto and van de Geijn
// 2008, "Anatomy of high-performance matrix multiplication"). Each element of a result is one fp32
// sum over the depth (the inner dim), in order, independent of other rows and columns. The depth is
// measured in words (words-inl.h).
//
// Compiled once for each kind of CPU: files include it between Highway's own headers.

#if defined(MOONRING_ATTENTION_KERNELS_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONRING_ATTENTION_KERNELS_PANELS_INL_H_
#undef MOONRING_ATTENTION_KERNELS_PANELS_INL_H_
#else
#define MOONRING_ATTENTION_KERNELS_PANELS_INL_H_
#endif

#include <cstdint>
#include <new>

#include "attention/kernels/words-inl.h"
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
MOONRING_BF16_TARGET
namespace moonring::attention {
namespace HWY_NAMESPACE {

constexpr int64_t kPanel = 2 * kLanes;  // columns
constexpr int kRegisterRows =
    kLanes >= 16 ? 8 : 4;  // rows of a register tile, limited by 32 or 16 vector registers

using Scratch = hwy::AlignedFreeUniquePtr<float[]>;

inline Scratch MakeScratch(int64_t words) {
  Scratch scratch = hwy::AllocateAligned<float>(words);
  if (scratch == nullptr) throw std::bad_alloc();
  return scratch;
}

inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t Quotient(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }  // rounded up
inline int64_t RoundUp(int64_t n, int64_t unit) { return Quotient(n, unit) * unit; }

// The right factor of a product, [depth, columns], packed in panels of kPanel columns, the last one
// padded with zeros: [panels][depth][kPanel].
template <typename Product>
class Panels {
 public:
  using Element = typename Product::Element;

  Panels(int64_t depth, int64_t columns)
      : depth_(Quotient(depth, Product::kPerWord)),
        panels_(Quotient(columns, kPanel)),
        data_(MakeScratch(depth_ * width())) {}

  int64_t depth() const { return depth_; }
  int64_t width() const { return panels_ * kPanel; }
  int64_t panels() const { return panels_; }
  const float* At(int64_t panel, int64_t word) const {
    return data_.get() + (panel * depth_ + word) * kPanel;
  }

  // Packs `rows` rows of a matrix [rows, columns].
  void PackRows(const Element* from, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t panel = 0; panel < panels_; ++panel) {
      const int64_t first = panel * kPanel, count = Min(kPanel, columns - first);
      for (int64_t row = 0; row < rows; row += Product::kPerWord) {
        float* to = Mutable(panel, row / Product::kPerWord);
        const Element* some = from + row * stride + first;
        Product::Interleave(some, row + 1 < rows ? some + stride : nullptr, count, to);
        for (int64_t c = count; c < kPanel; ++c) to[c] = 0.0f;
      }
    }
  }

  // Packs the transpose of a matrix [columns, numbers]: its rows become columns of this factor.
  void PackColumns(const Element* from, int64_t stride, int64_t columns, int64_t numbers) {
    const Scratch row = MakeScratch(depth_);
    for (int64_t c = 0; c < width(); ++c) {
      float* to = Mutable(c / kPanel, 0) + c % kPanel;
      if (c < columns) Product::Words(from + c * stride, numbers, row.get());
      for (int64_t k = 0; k < depth_; ++k) to[k * kPanel] = c < columns ? row[k] : 0.0f;
    }
  }

 private:
  float* Mutable(int64_t panel, int64_t word) {
    return data_.get() + (panel * depth_ + word) * kPanel;
  }

  int64_t depth_, panels_;  // in words
  Scratch data_;
};

// The left factor of a product: the word at (row, k) is data[row * row_stride + k * depth_stride].
struct Left {
  const float* data;
  int64_t row_stride;
  int64_t depth_stride;
  int64_t rows;
};

template <typename Product, int kRows>
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
      const Vector one = Product::Broadcast(a + r * left.row_stride);
      sums[r][0] = Product::Add(one, b0, sums[r][0]);
      sums[r][1] = Product::Add(one, b1, sums[r][1]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    hn::Store(sums[r][0], f, c + r * stride);
    hn::Store(sums[r][1], f, c + r * stride + kLanes);
  }
}

// Multiplies the remaining rows, which are fewer than a register tile's. Recursively selects the
// instantiation whose kRows equals `rows`.
template <typename Product, int kRows>
void MultiplyLast(int64_t rows, const float* a, const Left& left, const float* b, int64_t depth,
                  float* c, int64_t stride, bool add) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return MultiplyTile<Product, kRows>(a, left, b, depth, c, stride, add);
    MultiplyLast<Product, kRows - 1>(rows, a, left, b, depth, c, stride, add);
  }
}

// C = A B or C += A B for some rows and one panel.
template <typename Product>
void MultiplyRows(const Left& left, int64_t first, int64_t rows, const float* a, const float* b,
                  int64_t depth, float* c, int64_t stride, bool add) {
  const int64_t end = first + rows;
  int64_t r = first;
  for (; r + kRegisterRows <= end; r += kRegisterRows) {
    MultiplyTile<Product, kRegisterRows>(a + r * left.row_stride, left, b, depth, c + r * stride,
                                         stride, add);
  }
  MultiplyLast<Product, kRegisterRows - 1>(end - r, a + r * left.row_stride, left, b, depth,
                                           c + r * stride, stride, add);
}

// C = A B or C += A B for the words [word, word + depth) of the depth and the panels [first, end)
// of B. C is aligned like a panel; its column 0 is the first column of panel `first`. Loops are
// blocked by depth so that data stay in the first-level cache: one panel's block together with all
// rows of A, or, if they fit, the blocks of all panels together with the rows of one register tile.
template <typename Product>
void Multiply(const Left& left, const Panels<Product>& right, int64_t word, int64_t depth,
              int64_t first, int64_t end, float* c, int64_t stride, bool add) {
  constexpr int64_t kPart = 128;                          // words
  constexpr int64_t kCached = 32 * 1024 / sizeof(float);  // words
  for (int64_t begin = 0; begin < depth; begin += kPart) {
    const int64_t part = Min(kPart, depth - begin);
    const float* a = left.data + begin * left.depth_stride;
    const int64_t rows = (end - first) * kPanel * part <= kCached ? kRegisterRows : left.rows;
    for (int64_t row = 0; row < left.rows; row += rows) {
      for (int64_t panel = first; panel < end; ++panel) {
        MultiplyRows<Product>(left, row, Min(rows, left.rows - row), a,
                              right.At(panel, word + begin), part, c + (panel - first) * kPanel,
                              stride, add || begin > 0);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moonring::attention
HWY_AFTER_NAMESPACE();

#endif  // MOONRING_ATTENTION_KERNELS_PANELS_INL_H_
