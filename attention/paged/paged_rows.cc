#include "attention/paged/paged_rows.h"

#include <cmath>
#include <limits>
#include <new>

// Highway compiles the code between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each of
// these kinds of CPU.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/paged/paged_rows.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/aligned_allocator.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonring::attention {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 64;  // kKeyBlock

// How stored numbers are loaded: unchanged, or 16 bits converted to fp32.
template <typename Number>
struct Plain {
  using Stored = Number;
  using Computed = Number;
  using Tag = hn::ScalableTag<Computed>;
  static HWY_INLINE hn::Vec<Tag> Load(const Stored* from) { return hn::LoadU(Tag(), from); }
};

template <typename Narrow>
struct Narrowed {
  using Stored = uint16_t;
  using Computed = float;
  using Tag = hn::ScalableTag<float>;
  static HWY_INLINE hn::Vec<Tag> Load(const Stored* from) {
    const hn::Rebind<uint16_t, Tag> bits;
    const hn::Rebind<Narrow, Tag> narrow;
    return hn::PromoteTo(Tag(), hn::BitCast(narrow, hn::LoadU(bits, from)));
  }
};

template <typename Computed>
class Scratch {
 public:
  explicit Scratch(int64_t numbers) : data_(hwy::AllocateAligned<Computed>(numbers)) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  Computed* get() const { return data_.get(); }

 private:
  hwy::AlignedFreeUniquePtr<Computed[]> data_;
};

// C = A B or C += A B for kRows rows and two vectors of columns. The sums of each element are in
// the order of the inner dim (depth).
template <typename Read, int kRows>
HWY_INLINE void MultiplyTile(const typename Read::Computed* a, int64_t a_stride,
                             const typename Read::Stored* b, int64_t b_stride, int64_t depth,
                             typename Read::Computed* c, int64_t c_stride, bool add) {
  const typename Read::Tag tag;
  using Vector = hn::Vec<typename Read::Tag>;
  const int64_t lanes = hn::Lanes(tag);
  Vector sums[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sums[r][0] = add ? hn::LoadU(tag, c + r * c_stride) : hn::Zero(tag);
    sums[r][1] = add ? hn::LoadU(tag, c + r * c_stride + lanes) : hn::Zero(tag);
  }
  for (int64_t k = 0; k < depth; ++k, b += b_stride) {
    const Vector b0 = Read::Load(b), b1 = Read::Load(b + lanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector one = hn::Set(tag, a[r * a_stride + k]);
      sums[r][0] = hn::MulAdd(one, b0, sums[r][0]);
      sums[r][1] = hn::MulAdd(one, b1, sums[r][1]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(sums[r][0], tag, c + r * c_stride);
    hn::StoreU(sums[r][1], tag, c + r * c_stride + lanes);
  }
}

template <typename Read, int kRows>
void MultiplyLast(int64_t rows, const typename Read::Computed* a, int64_t a_stride,
                  const typename Read::Stored* b, int64_t b_stride, int64_t depth,
                  typename Read::Computed* c, int64_t c_stride, bool add) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyTile<Read, kRows>(a, a_stride, b, b_stride, depth, c, c_stride, add);
    } else {
      MultiplyLast<Read, kRows - 1>(rows, a, a_stride, b, b_stride, depth, c, c_stride, add);
    }
  }
}

// C = A B or C += A B. The last columns, which do not fill two vectors, use a padded copy with the
// same fused multiply-adds.
template <typename Read>
void Multiply(int64_t rows, const typename Read::Computed* a, int64_t a_stride,
              const typename Read::Stored* b, int64_t b_stride, int64_t depth, int64_t columns,
              typename Read::Computed* c, int64_t c_stride, bool add) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(typename Read::Tag()));
  constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  int64_t column = 0;
  for (; column + width <= columns; column += width) {
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows)
      MultiplyTile<Read, kRows>(a + r * a_stride, a_stride, b + column, b_stride, depth,
                                c + r * c_stride + column, c_stride, add);
    MultiplyLast<Read, kRows - 1>(rows - r, a + r * a_stride, a_stride, b + column, b_stride, depth,
                                  c + r * c_stride + column, c_stride, add);
  }
  if (column == columns) return;
  // The remaining columns, copied to a padded buffer: nothing is read or written beyond the last
  // column.
  using Computed = typename Read::Computed;
  using Stored = typename Read::Stored;
  const int64_t left = columns - column;
  HWY_ALIGN Stored some[kBlock * 2 * HWY_MAX_BYTES / sizeof(Computed)];
  HWY_ALIGN Computed result[2 * HWY_MAX_BYTES / sizeof(Computed)];
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < width; ++i)
      some[k * width + i] = i < left ? b[k * b_stride + column + i] : Stored();
  }
  for (int64_t r = 0; r < rows; ++r) {
    Computed* to = c + r * c_stride + column;
    for (int64_t i = 0; i < width; ++i) result[i] = add && i < left ? to[i] : Computed(0);
    MultiplyTile<Read, 1>(a + r * a_stride, a_stride, some, width, depth, result, width, true);
    for (int64_t i = 0; i < left; ++i) to[i] = result[i];
  }
}

// Converts one row's scores of a block to softmax weights, 0 where masked, and updates the running
// `maximum` and `sum`. Returns the factor by which the row's earlier sums must be rescaled.
template <typename Tag, typename Computed = hn::TFromD<Tag>>
Computed Soften(const Tag tag, Computed* row, SeenRows seen, Computed softcap, Computed& maximum,
                Computed& sum) {
  const int64_t lanes = hn::Lanes(tag);
  if (softcap > 0) {
    const auto cap = hn::Set(tag, softcap), inverse = hn::Set(tag, 1 / softcap);
    for (int64_t c = 0; c < kBlock; c += lanes)
      hn::StoreU(hn::Mul(cap, hn::Tanh(tag, hn::Mul(hn::LoadU(tag, row + c), inverse))), tag,
                 row + c);
  }
  constexpr Computed kHidden = std::numeric_limits<Computed>::lowest();
  for (int64_t c = 0; c < seen.begin; ++c) row[c] = kHidden;
  for (int64_t c = seen.end; c < kBlock; ++c) row[c] = kHidden;
  auto most = hn::LoadU(tag, row);
  for (int64_t c = lanes; c < kBlock; c += lanes) most = hn::Max(most, hn::LoadU(tag, row + c));
  const Computed before = maximum, here = hn::GetLane(hn::MaxOfLanes(tag, most));
  maximum = here > before ? here : before;
  const auto top = hn::Set(tag, maximum);
  auto total = hn::Zero(tag);
  for (int64_t c = 0; c < kBlock; c += lanes) {
    const auto weight = hn::Exp(tag, hn::Sub(hn::LoadU(tag, row + c), top));
    hn::StoreU(weight, tag, row + c);
  }
  for (int64_t c = 0; c < seen.begin; ++c) row[c] = 0;
  for (int64_t c = seen.end; c < kBlock; ++c) row[c] = 0;
  for (int64_t c = 0; c < kBlock; c += lanes) total = hn::Add(total, hn::LoadU(tag, row + c));
  const Computed shrink = std::exp(before - maximum);
  sum = sum * shrink + hn::GetLane(hn::SumOfLanes(tag, total));
  return shrink;
}

template <typename Read>
void Run(const PagedTask& task, int64_t rows, const void* queries_of_rows, void* to_out,
         void* to_lse) {
  using Computed = typename Read::Computed;
  using Stored = typename Read::Stored;
  const typename Read::Tag tag;
  const auto* const queries = static_cast<const Computed*>(queries_of_rows);
  auto* const out = static_cast<Computed*>(to_out);
  auto* const lse = static_cast<Computed*>(to_lse);
  const int64_t dim = task.key_dim, value_dim = task.value_dim;
  const Scratch<Computed> scores(rows * kBlock), maxima(rows), sums(rows);
  for (int64_t r = 0; r < rows; ++r) {
    maxima.get()[r] = -std::numeric_limits<Computed>::infinity();
    sums.get()[r] = 0;
    for (int64_t c = 0; c < value_dim; ++c) out[r * value_dim + c] = 0;
  }
  for (const PagedSweep& sweep : task.sweeps) {
    const int64_t count = sweep.end - sweep.first;
    const Computed* some = queries + sweep.first * dim;
    for (size_t b = 0; b < sweep.blocks.size(); ++b) {
      const SeenRows* seen = sweep.seen.data() + b * count;
      // Skips the first and the last rows that attend to nothing in the block, for example the
      // first rows of a prompt.
      int64_t first = 0, end = count;
      while (first < end && seen[first].begin == seen[first].end) ++first;
      while (end > first && seen[end - 1].begin == seen[end - 1].end) --end;
      if (first == end) continue;
      const int64_t place = sweep.blocks[b] * task.kv_heads + task.kv_head;
      const Stored* keys = static_cast<const Stored*>(task.keys) + place * dim * kBlock;
      const Stored* values = static_cast<const Stored*>(task.values) + place * value_dim * kBlock;
      Multiply<Read>(end - first, some + first * dim, dim, keys, kBlock, dim, kBlock, scores.get(),
                     kBlock, false);
      int64_t low = kBlock, high = 0;
      for (int64_t r = first; r < end; ++r) {
        Computed* row = scores.get() + (r - first) * kBlock;
        if (seen[r].begin == seen[r].end) {
          for (int64_t c = 0; c < kBlock; ++c) row[c] = 0;
          continue;
        }
        low = seen[r].begin < low ? seen[r].begin : low;
        high = seen[r].end > high ? seen[r].end : high;
        const int64_t at = sweep.first + r;
        const Computed shrink = Soften(tag, row, seen[r], static_cast<Computed>(task.softcap),
                                       maxima.get()[at], sums.get()[at]);
        Computed* sum = out + at * value_dim;
        for (int64_t c = 0; c < value_dim; ++c) sum[c] *= shrink;
      }
      Multiply<Read>(end - first, scores.get() + low, kBlock, values + low * value_dim, value_dim,
                     high - low, value_dim, out + (sweep.first + first) * value_dim, value_dim,
                     true);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const Computed sum = sums.get()[r];
    lse[r] = sum > 0 ? maxima.get()[r] + std::log(sum)
                     : (sum == 0 ? -std::numeric_limits<Computed>::infinity() : sum);
    if (sum == 0) continue;
    for (int64_t c = 0; c < value_dim; ++c) out[r * value_dim + c] /= sum;
  }
}

void RunFloat(const PagedTask& task, int64_t rows, const void* queries, void* out, void* lse) {
  Run<Plain<float>>(task, rows, queries, out, lse);
}
void RunBf16(const PagedTask& task, int64_t rows, const void* queries, void* out, void* lse) {
  Run<Narrowed<hwy::bfloat16_t>>(task, rows, queries, out, lse);
}
void RunHalf(const PagedTask& task, int64_t rows, const void* queries, void* out, void* lse) {
  Run<Narrowed<hwy::float16_t>>(task, rows, queries, out, lse);
}
void RunDouble(const PagedTask& task, int64_t rows, const void* queries, void* out, void* lse) {
  Run<Plain<double>>(task, rows, queries, out, lse);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonring::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonring::attention {
HWY_EXPORT(RunFloat);
HWY_EXPORT(RunBf16);
HWY_EXPORT(RunHalf);
HWY_EXPORT(RunDouble);

void RunPagedTask(const PagedTask& task, PagedNumbers numbers, int64_t rows, const void* queries,
                  void* out, void* lse) {
  switch (numbers) {
    case PagedNumbers::kFloat:
      return HWY_DYNAMIC_DISPATCH(RunFloat)(task, rows, queries, out, lse);
    case PagedNumbers::kBFloat16:
      return HWY_DYNAMIC_DISPATCH(RunBf16)(task, rows, queries, out, lse);
    case PagedNumbers::kHalf:
      return HWY_DYNAMIC_DISPATCH(RunHalf)(task, rows, queries, out, lse);
    case PagedNumbers::kDouble:
      return HWY_DYNAMIC_DISPATCH(RunDouble)(task, rows, queries, out, lse);
  }
}

}  // namespace moonring::attention
#endif
