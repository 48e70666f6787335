#include "attention/kernels/flash_tile.h"

#include <cmath>

// Highway compiles the code between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each of
// these kinds of CPU.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/kernels/flash_tile.cc"
#include "hwy/foreach_target.h"
//
#include "attention/kernels/panels-inl.h"
#include "attention/kernels/softmax_rows-inl.h"
#include "attention/kernels/words-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
MOONRING_BF16_TARGET
namespace moonring::attention {
namespace HWY_NAMESPACE {

constexpr int64_t kQueries = 64, kKeys = 512;  // size of the block of scores
constexpr int64_t kScoreStride =
    kKeys + 16;  // without the 16, a column would use only two sets of the first-level cache

// The properties of a tile that determine its mask, independent of the rows' dtype.
struct Shape {
  int64_t queries, keys;
  TileKind kind;
};

// The union of the keys that queries [begin, end) of a tile attend to.
Range SeenKeys(const Shape& tile, int64_t begin, int64_t end) {
  if (tile.kind == TileKind::kCausal) return {0, Min(end, tile.keys)};
  if (tile.kind == TileKind::kWindowEdge) return {begin, tile.keys};
  return {0, tile.keys};
}

// Some queries of one head, and at most kKeys of the keys that any of these queries attends to.
struct Piece {
  int64_t query, queries;  // the first query, and their number
  int64_t key, end;        // the first key, which begins a panel, and the one after the last
  int64_t width() const { return RoundUp(end - key, kPanel); }

  // The columns of this piece's scores that its query row r attends to; may be empty.
  Range Seen(const Shape& tile, int64_t r) const {
    const Range keys = SeenKeys(tile, query + r, query + r + 1);
    const int64_t begin = Min(Max(keys.begin - key, 0), end - key);
    return {begin, Max(begin, Min(keys.end, end) - key)};
  }
};

template <typename Body>
void ForPieces(const Shape& tile, int64_t query, int64_t queries, const Body& body) {
  const Range seen = SeenKeys(tile, query, query + queries);
  for (int64_t grid = seen.begin / kKeys * kKeys; grid < seen.end; grid += kKeys) {
    body(Piece{query, queries, Max(grid, seen.begin / kPanel * kPanel),
               Min(grid + kKeys, seen.end)});
  }
}

template <typename Element>
Shape ShapeOf(const FlashTile<Element>& tile) {
  return {tile.queries, tile.keys, tile.kind};
}

// Some query rows as the left factor of products, stored as words (words-inl.h) along the row.
template <typename Product>
class Rows {
 public:
  explicit Rows(int64_t dim)
      : dim_(dim),
        words_(Quotient(dim, Product::kPerWord)),
        data_(MakeScratch(kQueries * words_)) {}

  template <typename Element>
  void Take(const StridedRows<Element>& rows, int64_t query, int64_t queries, int64_t head) {
    for (int64_t r = 0; r < queries; ++r)
      Product::Words(rows.At(query + r, head), dim_, data_.get() + r * words_);
    queries_ = queries;
  }
  Left left() const { return {data_.get(), words_, 1, queries_}; }

  // Packs the same rows as the right factor of a product whose inner dim is the queries.
  void PackInto(Panels<Product>& panels) const {
    panels.PackRows(reinterpret_cast<const typename Product::Element*>(data_.get()),
                    words_ * Product::kPerWord, queries_, dim_);
  }

 private:
  int64_t dim_, words_, queries_ = 0;
  Scratch data_;
};

template <typename Product>
void Forward(const FlashTile<typename Product::Element>& tile, float* out_MHD, float* lse_MH) {
  const Floats f;
  const Shape shape = ShapeOf(tile);
  const Scores of_products(tile.scale, tile.softcap);
  const int64_t dim = tile.head_dim, value_dim = tile.value_dim, group = tile.heads / tile.kv_heads;
  Panels<Product> keys(dim, tile.keys), values(tile.keys, value_dim);
  Rows<Product> some_q(dim);
  const int64_t stride = values.width();
  const auto scores = MakeScratch(kQueries * kScoreStride), sums = MakeScratch(kQueries * stride);
  for (int64_t head = 0; head < tile.heads; ++head) {
    if (head % group == 0) {
      keys.PackColumns(tile.k.At(0, head / group), tile.k.row_stride, tile.keys, dim);
      values.PackRows(tile.v.At(0, head / group), tile.v.row_stride, tile.keys, value_dim);
    }
    for (int64_t query = 0; query < tile.queries; query += kQueries) {
      const int64_t queries = Min(kQueries, tile.queries - query);
      some_q.Take(tile.q, query, queries, head);
      float maximum[kQueries], sum[kQueries];
      for (int64_t r = 0; r < queries; ++r) maximum[r] = kHidden, sum[r] = 0.0f;
      Fill(sums.get(), 0, queries * stride, 0.0f);
      ForPieces(shape, query, queries, [&](const Piece& piece) HWY_ATTR {
        Multiply(some_q.left(), keys, 0, keys.depth(), piece.key / kPanel,
                 Quotient(piece.end, kPanel), scores.get(), kScoreStride, false);
        for (int64_t r = 0; r < queries; ++r) {
          float *weights = scores.get() + r * kScoreStride, *row = sums.get() + r * stride;
          const Vector shrink = hn::Set(f, Soften(of_products, weights, piece.width(),
                                                  piece.Seen(shape, r), maximum[r], sum[r]));
          if constexpr (Product::kPerWord == 2) Product::Narrow(weights, piece.width(), weights);
          for (int64_t c = 0; c < stride; c += kLanes)
            hn::Store(hn::Mul(hn::Load(f, row + c), shrink), f, row + c);
        }
        Multiply({scores.get(), kScoreStride, 1, queries}, values, piece.key / Product::kPerWord,
                 Quotient(piece.end - piece.key, Product::kPerWord), 0, values.panels(), sums.get(),
                 stride, true);
      });
      for (int64_t r = 0; r < queries; ++r) {
        const int64_t at = (query + r) * tile.heads + head;
        for (int64_t c = 0; c < value_dim; ++c)
          out_MHD[at * value_dim + c] = sums[r * stride + c] / sum[r];
        lse_MH[at] = maximum[r] * kLn2 + std::log(sum[r]);
      }
    }
  }
}

// P and dZ of some queries and a piece of keys, as left factors of products. The inner dim is the
// keys for dq (dZ only), and the queries for dk and dv (P and dZ).
template <typename Product>
struct Weights {
  static constexpr int64_t kNarrowStride = kKeys / 2 + 16;
  Scratch weights = MakeScratch(kQueries * kScoreStride),
          dscores = MakeScratch(kQueries * kScoreStride),
          narrow = MakeScratch(Product::kPerWord == 1 ? 1 : kQueries * kNarrowStride);

  void Finish(int64_t queries, int64_t width) {
    if constexpr (Product::kPerWord == 2) {
      for (int64_t r = 0; r < queries; ++r)
        Product::Narrow(dscores.get() + r * kScoreStride, width, narrow.get() + r * kNarrowStride);
      for (int64_t r = 0; r < queries; r += 2) {
        for (float* rows : {weights.get(), dscores.get()}) {
          float* row = rows + r * kScoreStride;
          Product::Pair(row, r + 1 < queries ? row + kScoreStride : nullptr, width);
        }
      }
    }
  }
  Left ByQuery(int64_t queries) const {
    if (Product::kPerWord == 1) return {dscores.get(), kScoreStride, 1, queries};
    return {narrow.get(), kNarrowStride, 1, queries};
  }
  static Left ByKey(const Scratch& some, int64_t keys) {
    return {some.get(), 1, Product::kPerWord * kScoreStride, keys};
  }
};

inline float Dot(const float* a, const float* b, int64_t dim) {
  float sum = 0.0f;
  for (int64_t c = 0; c < dim; ++c) sum += a[c] * b[c];
  return sum;
}

template <typename Product>
void Backward(const FlashTile<typename Product::Element>& tile, const StridedRows<float>& dout,
              const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
              float* dk_NKD, float* dv_NKD) {
  const Shape shape = ShapeOf(tile);
  const Scores of_products(tile.scale, tile.softcap);
  const int64_t dim = tile.head_dim, value_dim = tile.value_dim, group = tile.heads / tile.kv_heads;
  Panels<Product> keys_by_column(dim, tile.keys), values_by_column(value_dim, tile.keys),
      keys(tile.keys, dim), q_panels(kQueries, dim), dout_panels(kQueries, value_dim);
  Rows<Product> some_q(dim), some_dout(value_dim);
  Weights<Product> scores;
  const int64_t stride = keys.width(), value_stride = dout_panels.width();
  const auto dq = MakeScratch(kQueries * stride), dk = MakeScratch(tile.keys * stride),
             dv = MakeScratch(tile.keys * value_stride);
  for (int64_t head = 0; head < tile.heads; ++head) {
    const int64_t kv = head / group;
    if (head % group == 0) {
      keys_by_column.PackColumns(tile.k.At(0, kv), tile.k.row_stride, tile.keys, dim);
      values_by_column.PackColumns(tile.v.At(0, kv), tile.v.row_stride, tile.keys, value_dim);
      keys.PackRows(tile.k.At(0, kv), tile.k.row_stride, tile.keys, dim);
      Fill(dk.get(), 0, tile.keys * stride, 0.0f);
      Fill(dv.get(), 0, tile.keys * value_stride, 0.0f);
    }
    for (int64_t query = 0; query < tile.queries; query += kQueries) {
      const int64_t queries = Min(kQueries, tile.queries - query),
                    depth = Quotient(queries, Product::kPerWord);
      some_q.Take(tile.q, query, queries, head);
      some_dout.Take(dout, query, queries, head);
      some_q.PackInto(q_panels);
      some_dout.PackInto(dout_panels);
      float delta[kQueries];
      for (int64_t r = 0; r < queries; ++r)
        delta[r] = Dot(dout.At(query + r, head), out.At(query + r, head), value_dim);
      Fill(dq.get(), 0, queries * stride, 0.0f);
      ForPieces(shape, query, queries, [&](const Piece& piece) HWY_ATTR {
        const int64_t first = piece.key / kPanel, end = Quotient(piece.end, kPanel),
                      count = piece.end - piece.key;
        Multiply(some_q.left(), keys_by_column, 0, keys_by_column.depth(), first, end,
                 scores.weights.get(), kScoreStride, false);
        Multiply(some_dout.left(), values_by_column, 0, values_by_column.depth(), first, end,
                 scores.dscores.get(), kScoreStride, false);
        for (int64_t r = 0; r < queries; ++r) {
          SoftenBack(of_products, scores.weights.get() + r * kScoreStride,
                     scores.dscores.get() + r * kScoreStride, piece.width(), piece.Seen(shape, r),
                     *lse.At(query + r, head), delta[r]);
        }
        scores.Finish(queries, piece.width());
        Multiply(scores.ByKey(scores.weights, count), dout_panels, 0, depth, 0,
                 dout_panels.panels(), dv.get() + piece.key * value_stride, value_stride, true);
        Multiply(scores.ByKey(scores.dscores, count), q_panels, 0, depth, 0, q_panels.panels(),
                 dk.get() + piece.key * stride, stride, true);
        Multiply(scores.ByQuery(queries), keys, piece.key / Product::kPerWord,
                 Quotient(count, Product::kPerWord), 0, keys.panels(), dq.get(), stride, true);
      });
      for (int64_t r = 0; r < queries; ++r) {
        float* to = dq_MHD + ((query + r) * tile.heads + head) * dim;
        for (int64_t c = 0; c < dim; ++c) to[c] = dq[r * stride + c];
      }
    }
    if (head % group != group - 1) continue;
    for (int64_t n = 0; n < tile.keys; ++n) {
      const int64_t at = n * tile.kv_heads + kv;
      for (int64_t c = 0; c < dim; ++c) dk_NKD[at * dim + c] = dk[n * stride + c];
      for (int64_t c = 0; c < value_dim; ++c) dv_NKD[at * value_dim + c] = dv[n * value_stride + c];
    }
  }
}

void ForwardFp32(const FlashTile<float>& tile, float* out_MHD, float* lse_MH) {
  Forward<Fp32Product>(tile, out_MHD, lse_MH);
}

void BackwardFp32(const FlashTile<float>& tile, const StridedRows<float>& dout,
                  const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
                  float* dk_NKD, float* dv_NKD) {
  Backward<Fp32Product>(tile, dout, out, lse, dq_MHD, dk_NKD, dv_NKD);
}

// bf16 products exist for one kind of CPU only. The versions of this function for other CPUs are
// never called.
void ForwardBf16(const FlashTile<Bf16>& tile, float* out_MHD, float* lse_MH) {
#if MOONRING_BF16_WORDS
  Forward<Bf16Product>(tile, out_MHD, lse_MH);
#else
  HWY_ABORT("bf16 tiles on a CPU without them");
#endif
}

void BackwardBf16(const FlashTile<Bf16>& tile, const StridedRows<float>& dout,
                  const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
                  float* dk_NKD, float* dv_NKD) {
#if MOONRING_BF16_WORDS
  Backward<Bf16Product>(tile, dout, out, lse, dq_MHD, dk_NKD, dv_NKD);
#else
  HWY_ABORT("bf16 tiles on a CPU without them");
#endif
}

bool HasBf16Words() {
#if MOONRING_BF16_WORDS
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace moonring::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonring::attention {
HWY_EXPORT(ForwardFp32);
HWY_EXPORT(BackwardFp32);
HWY_EXPORT(ForwardBf16);
HWY_EXPORT(BackwardBf16);
HWY_EXPORT(HasBf16Words);

bool HasBf16Tiles() { return HWY_DYNAMIC_DISPATCH(HasBf16Words)(); }

void FlashForward(const FlashTile<float>& tile, float* out_MHD, float* lse_MH) {
  HWY_DYNAMIC_DISPATCH(ForwardFp32)(tile, out_MHD, lse_MH);
}

void FlashForward(const FlashTile<Bf16>& tile, float* out_MHD, float* lse_MH) {
  HWY_DYNAMIC_DISPATCH(ForwardBf16)(tile, out_MHD, lse_MH);
}

void FlashBackward(const FlashTile<float>& tile, const StridedRows<float>& dout,
                   const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
                   float* dk_NKD, float* dv_NKD) {
  HWY_DYNAMIC_DISPATCH(BackwardFp32)(tile, dout, out, lse, dq_MHD, dk_NKD, dv_NKD);
}

void FlashBackward(const FlashTile<Bf16>& tile, const StridedRows<float>& dout,
                   const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
                   float* dk_NKD, float* dv_NKD) {
  HWY_DYNAMIC_DISPATCH(BackwardBf16)(tile, dout, out, lse, dq_MHD, dk_NKD, dv_NKD);
}

}  // namespace moonring::attention
#endif
