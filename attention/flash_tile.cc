#include "attention/flash_tile.h"

#include <cmath>

// Highway compiles what lies between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once for each of
// these kinds of CPU.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/flash_tile.cc"
#include "hwy/foreach_target.h"
//
#include "attention/panels-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonring::attention {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kQueries = 64, kKeys = 512;  // whose scores exist at a time
constexpr int64_t kScoreStride =
    kKeys + 16;  // a column's elements would else lie in two sets of the first-level cache

// Highway's is 0 of NaN.
Vector Exp(Vector x) {
  const Floats f;
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(f, x));
}

struct Range {
  int64_t begin, end;
};

// The keys that queries [begin, end) of a tile see, together.
Range SeenKeys(const FlashTile& tile, int64_t begin, int64_t end) {
  if (tile.kind == TileKind::kCausal) return {0, Min(end, tile.keys)};
  if (tile.kind == TileKind::kWindowEdge) return {begin, tile.keys};
  return {0, tile.keys};
}

// Some queries of one head and the keys that any of them sees, piece by piece on a grid of kKeys.
struct Piece {
  int64_t query, queries;  // the first and how many
  int64_t key, end;        // the first, which begins a panel, and the one after the last
  int64_t width() const { return RoundUp(end - key, kPanel); }

  // The columns of this piece's scores that query row r of it sees; may be empty.
  Range Seen(const FlashTile& tile, int64_t r) const {
    const Range keys = SeenKeys(tile, query + r, query + r + 1);
    const int64_t begin = Min(Max(keys.begin - key, 0), end - key);
    return {begin, Max(begin, Min(keys.end, end) - key)};
  }
};

template <typename Body>
void ForPieces(const FlashTile& tile, int64_t query, int64_t queries, const Body& body) {
  const Range seen = SeenKeys(tile, query, query + queries);
  for (int64_t grid = seen.begin / kKeys * kKeys; grid < seen.end; grid += kKeys) {
    body(Piece{query, queries, Max(grid, seen.begin / kPanel * kPanel),
               Min(grid + kKeys, seen.end)});
  }
}

void Fill(float* row, int64_t begin, int64_t end, float value) {
  for (int64_t c = begin; c < end; ++c) row[c] = value;
}

// Products to scores: S = scale Z, or softcap tanh(scale / softcap Z).
Vector Bend(const FlashTile& tile, Vector products) {
  const Floats f;
  if (tile.softcap == 0.0f) return hn::Mul(products, hn::Set(f, tile.scale));
  return hn::Mul(hn::Set(f, tile.softcap),
                 hn::Tanh(f, hn::Mul(products, hn::Set(f, tile.scale / tile.softcap))));
}

// Far below any score, and finite: a difference of two is no NaN.
constexpr float kHidden = -1e30f;

// One row of products to exp(score - maximum), 0 where not seen. Returns the factor by which
// earlier sums of the row shrink.
float Soften(const FlashTile& tile, float* row, int64_t width, Range seen, float& maximum,
             float& sum) {
  const Floats f;
  for (int64_t c = 0; c < width; c += kLanes)
    hn::Store(Bend(tile, hn::Load(f, row + c)), f, row + c);
  Fill(row, 0, seen.begin, kHidden);
  Fill(row, seen.end, width, kHidden);
  Vector most = hn::Set(f, maximum);
  for (int64_t c = 0; c < width; c += kLanes) most = hn::Max(most, hn::Load(f, row + c));
  const float before = maximum;
  maximum = hn::GetLane(hn::MaxOfLanes(f, most));
  const Vector top = hn::Set(f, maximum);
  Vector total = hn::Zero(f);
  for (int64_t c = 0; c < width; c += kLanes) {
    const Vector weight = Exp(hn::Sub(hn::Load(f, row + c), top));
    hn::Store(weight, f, row + c);
    total = hn::Add(total, weight);
  }
  const float shrink = std::exp(before - maximum);
  sum = sum * shrink + hn::GetLane(hn::SumOfLanes(f, total));
  return shrink;
}

void Forward(const FlashTile& tile, float* out_MHD, float* lse_MH) {
  const Floats f;
  const int64_t dim = tile.head_dim, group = tile.heads / tile.kv_heads;
  Panels keys(dim, tile.keys), values(tile.keys, dim);
  const int64_t stride = values.width();
  const auto scores = MakeScratch(kQueries * kScoreStride), sums = MakeScratch(kQueries * stride);
  for (int64_t head = 0; head < tile.heads; ++head) {
    if (head % group == 0) {
      keys.PackColumns(tile.k.At(0, head / group), tile.k.row_stride, tile.keys);
      values.PackRows(tile.v.At(0, head / group), tile.v.row_stride, tile.keys, dim);
    }
    for (int64_t query = 0; query < tile.queries; query += kQueries) {
      const int64_t queries = Min(kQueries, tile.queries - query);
      float maximum[kQueries], sum[kQueries];
      for (int64_t r = 0; r < queries; ++r) maximum[r] = kHidden, sum[r] = 0.0f;
      Fill(sums.get(), 0, queries * stride, 0.0f);
      ForPieces(tile, query, queries, [&](const Piece& piece) HWY_ATTR {
        Multiply({tile.q.At(query, head), tile.q.row_stride, 1, queries}, keys, 0, dim,
                 piece.key / kPanel, RoundUp(piece.end, kPanel) / kPanel, scores.get(),
                 kScoreStride, false);
        for (int64_t r = 0; r < queries; ++r) {
          const Vector shrink =
              hn::Set(f, Soften(tile, scores.get() + r * kScoreStride, piece.width(),
                                piece.Seen(tile, r), maximum[r], sum[r]));
          float* row = sums.get() + r * stride;
          for (int64_t c = 0; c < stride; c += kLanes)
            hn::Store(hn::Mul(hn::Load(f, row + c), shrink), f, row + c);
        }
        Multiply({scores.get(), kScoreStride, 1, queries}, values, piece.key, piece.end - piece.key,
                 0, values.panels(), sums.get(), stride, true);
      });
      for (int64_t r = 0; r < queries; ++r) {
        const int64_t at = (query + r) * tile.heads + head;
        for (int64_t c = 0; c < dim; ++c) out_MHD[at * dim + c] = sums[r * stride + c] / sum[r];
        lse_MH[at] = maximum[r] + std::log(sum[r]);
      }
    }
  }
}

// One row of products Q K^T to the weights P, and of dout V^T to dZ scale.
void SoftenBack(const FlashTile& tile, float* row, float* gradient, int64_t width, Range seen,
                float lse, float delta) {
  const Floats f;
  const Vector scale = hn::Set(f, tile.scale), one = hn::Set(f, 1.0f);
  for (int64_t c = 0; c < width; c += kLanes) {
    const Vector score = Bend(tile, hn::Load(f, row + c));
    const Vector weight = Exp(hn::Sub(score, hn::Set(f, lse)));
    Vector of_score =
        hn::Mul(hn::Mul(weight, hn::Sub(hn::Load(f, gradient + c), hn::Set(f, delta))), scale);
    if (tile.softcap != 0.0f) {
      const Vector bent = hn::Mul(score, hn::Set(f, 1.0f / tile.softcap));
      of_score = hn::Mul(of_score, hn::NegMulAdd(bent, bent, one));
    }
    hn::Store(weight, f, row + c);
    hn::Store(of_score, f, gradient + c);
  }
  for (float* some : {row, gradient}) {
    Fill(some, 0, seen.begin, 0.0f);
    Fill(some, seen.end, width, 0.0f);
  }
}

void Backward(const FlashTile& tile, const StridedRows& dout, const StridedRows& out,
              const StridedRows& lse, float* dq_MHD, float* dk_NKD, float* dv_NKD) {
  const int64_t dim = tile.head_dim, group = tile.heads / tile.kv_heads;
  Panels keys_by_column(dim, tile.keys), values_by_column(dim, tile.keys), keys(tile.keys, dim),
      some_q(kQueries, dim), some_dout(kQueries, dim);
  const int64_t stride = keys.width();
  const auto weights = MakeScratch(kQueries * kScoreStride),
             dscores = MakeScratch(kQueries * kScoreStride);
  const auto dq = MakeScratch(kQueries * stride), dk = MakeScratch(tile.keys * stride),
             dv = MakeScratch(tile.keys * stride);
  for (int64_t head = 0; head < tile.heads; ++head) {
    const int64_t kv = head / group;
    if (head % group == 0) {
      keys_by_column.PackColumns(tile.k.At(0, kv), tile.k.row_stride, tile.keys);
      values_by_column.PackColumns(tile.v.At(0, kv), tile.v.row_stride, tile.keys);
      keys.PackRows(tile.k.At(0, kv), tile.k.row_stride, tile.keys, dim);
      Fill(dk.get(), 0, tile.keys * stride, 0.0f);
      Fill(dv.get(), 0, tile.keys * stride, 0.0f);
    }
    for (int64_t query = 0; query < tile.queries; query += kQueries) {
      const int64_t queries = Min(kQueries, tile.queries - query);
      const float *q_rows = tile.q.At(query, head), *dout_rows = dout.At(query, head);
      some_q.PackRows(q_rows, tile.q.row_stride, queries, dim);
      some_dout.PackRows(dout_rows, dout.row_stride, queries, dim);
      float delta[kQueries];
      for (int64_t r = 0; r < queries; ++r) {
        const float *a = dout.At(query + r, head), *b = out.At(query + r, head);
        float sum = 0.0f;
        for (int64_t c = 0; c < dim; ++c) sum += a[c] * b[c];
        delta[r] = sum;
      }
      Fill(dq.get(), 0, queries * stride, 0.0f);
      ForPieces(tile, query, queries, [&](const Piece& piece) HWY_ATTR {
        const int64_t first = piece.key / kPanel, end = RoundUp(piece.end, kPanel) / kPanel,
                      count = piece.end - piece.key;
        Multiply({q_rows, tile.q.row_stride, 1, queries}, keys_by_column, 0, dim, first, end,
                 weights.get(), kScoreStride, false);
        Multiply({dout_rows, dout.row_stride, 1, queries}, values_by_column, 0, dim, first, end,
                 dscores.get(), kScoreStride, false);
        for (int64_t r = 0; r < queries; ++r) {
          SoftenBack(tile, weights.get() + r * kScoreStride, dscores.get() + r * kScoreStride,
                     piece.width(), piece.Seen(tile, r), *lse.At(query + r, head), delta[r]);
        }
        Multiply({weights.get(), 1, kScoreStride, count}, some_dout, 0, queries, 0,
                 some_dout.panels(), dv.get() + piece.key * stride, stride, true);
        Multiply({dscores.get(), 1, kScoreStride, count}, some_q, 0, queries, 0, some_q.panels(),
                 dk.get() + piece.key * stride, stride, true);
        Multiply({dscores.get(), kScoreStride, 1, queries}, keys, piece.key, count, 0,
                 keys.panels(), dq.get(), stride, true);
      });
      for (int64_t r = 0; r < queries; ++r) {
        float* to = dq_MHD + ((query + r) * tile.heads + head) * dim;
        for (int64_t c = 0; c < dim; ++c) to[c] = dq[r * stride + c];
      }
    }
    if (head % group != group - 1) continue;
    for (int64_t n = 0; n < tile.keys; ++n) {
      const int64_t at = (n * tile.kv_heads + kv) * dim;
      for (int64_t c = 0; c < dim; ++c)
        dk_NKD[at + c] = dk[n * stride + c], dv_NKD[at + c] = dv[n * stride + c];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moonring::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonring::attention {
HWY_EXPORT(Forward);
HWY_EXPORT(Backward);

void FlashForward(const FlashTile& tile, float* out_MHD, float* lse_MH) {
  HWY_DYNAMIC_DISPATCH(Forward)(tile, out_MHD, lse_MH);
}

void FlashBackward(const FlashTile& tile, const StridedRows& dout, const StridedRows& out,
                   const StridedRows& lse, float* dq_MHD, float* dk_NKD, float* dv_NKD) {
  HWY_DYNAMIC_DISPATCH(Backward)(tile, dout, out, lse, dq_MHD, dk_NKD, dv_NKD);
}

}  // namespace moonring::attention
#endif
