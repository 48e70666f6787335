// Converts rows of products Q K^T to rows of softmax weights, and rows of dout V^T to gradients of
// the products (equations: block_attention.h), in fp32.
//
// Powers of 2 replace powers of e: a weight is 2^t, where t = log2(e) (score - maximum) is rounded
// once. 2^t is 2^n times a polynomial on [-1/2, 1/2] (minimax in the relative error, 1.9e-9), and
// exactly 0 below 2^-126.
//
// Compiled once for each kind of CPU: files include it between Highway's own headers.

#if defined(MOONRING_ATTENTION_KERNELS_SOFTMAX_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONRING_ATTENTION_KERNELS_SOFTMAX_ROWS_INL_H_
#undef MOONRING_ATTENTION_KERNELS_SOFTMAX_ROWS_INL_H_
#else
#define MOONRING_ATTENTION_KERNELS_SOFTMAX_ROWS_INL_H_
#endif

#include <cstdint>

#include "attention/kernels/words-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonring::attention {
namespace HWY_NAMESPACE {

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// The score of masked keys: far below any score, but finite, so that a difference of two is not
// NaN.
constexpr float kHidden = -1e30f;

// 2^t; NaN for NaN.
HWY_INLINE Vector Exp2(Vector t) {
  const Floats f;
  const hn::RebindToSigned<Floats> i;
  // Adding this to t puts the nearest integer n, plus the exponent's bias 127, into the lowest
  // bits.
  const Vector shift = hn::Set(f, 12582912.0f + 127.0f);
  const Vector biased = hn::Add(t, shift);
  const Vector x = hn::Sub(t, hn::Sub(biased, shift));
  Vector power = hn::Set(f, 1.53458124e-4f);
  for (const float c :
       {1.33999309e-3f, 9.61848907e-3f, 5.55032864e-2f, 2.40226462e-1f, 6.93147182e-1f, 1.0f})
    power = hn::MulAdd(power, x, hn::Set(f, c));
  power = hn::Mul(power, hn::BitCast(f, hn::ShiftLeft<23>(hn::BitCast(i, biased))));
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(f, -126.0f)), power);
}

struct Range {
  int64_t begin, end;
};

inline void Fill(float* row, int64_t begin, int64_t end, float value) {
  for (int64_t c = begin; c < end; ++c) row[c] = value;
}

// Computes scores S = scale Z, or softcap tanh(scale / softcap Z), from products Z.
class Scores {
 public:
  Scores(float scale, float softcap) : scale_(scale), softcap_(softcap) {}

  bool bent() const { return softcap_ != 0.0f; }

  // Transforms a row of products in place, such that log2(e) times the scores is unit() times the
  // row, with unit() > 0.
  void Bend(float* row, int64_t width) const {
    const Floats f;
    if (bent()) {
      const Vector inner = hn::Set(f, scale_ / softcap_), outer = hn::Set(f, softcap_);
      for (int64_t c = 0; c < width; c += kLanes)
        hn::Store(hn::Mul(outer, hn::Tanh(f, hn::Mul(hn::Load(f, row + c), inner))), f, row + c);
    } else if (!in_unit()) {
      for (int64_t c = 0; c < width; c += kLanes)
        hn::Store(hn::Mul(hn::Load(f, row + c), hn::Set(f, scale_)), f, row + c);
    }
  }
  float unit() const { return bent() || !in_unit() ? kLog2E : kLog2E * scale_; }

  // (dS / dZ) / scale for an element of a row with a softcap.
  HWY_INLINE Vector Slope(Vector score) const {
    const Floats f;
    const Vector bent = hn::Mul(score, hn::Set(f, 1.0f / softcap_));
    return hn::NegMulAdd(bent, bent, hn::Set(f, 1.0f));
  }
  float scale() const { return scale_; }

 private:
  // Whether the scale may be a factor of unit() instead of being applied by Bend. With a negative
  // or tiny scale the greatest product might not have the greatest score, or kHidden might not be
  // far below all others.
  bool in_unit() const { return scale_ > 1e-6f; }

  float scale_, softcap_;
};

// Converts one row of products to exp(score - maximum), with 0 where masked, and updates the
// running `maximum` (log2(e) times the greatest score) and `sum`. Returns the factor by which the
// row's earlier sums must be rescaled.
inline float Soften(const Scores& scores, float* row, int64_t width, Range seen, float& maximum,
                    float& sum) {
  if (seen.begin == seen.end) {
    Fill(row, 0, width, 0.0f);
    return 1.0f;
  }
  const Floats f;
  scores.Bend(row, width);
  Fill(row, 0, seen.begin, kHidden);
  Fill(row, seen.end, width, kHidden);
  Vector most = hn::Load(f, row), other = most;
  for (int64_t c = 0; c < width; c += 2 * kLanes) {
    most = hn::Max(most, hn::Load(f, row + c));
    other = hn::Max(other, hn::Load(f, row + c + kLanes));
  }
  const float before = maximum, unit = scores.unit(),
              here = hn::GetLane(hn::MaxOfLanes(f, hn::Max(most, other)));
  maximum = here * unit > before ? here * unit : before;
  const Vector units = hn::Set(f, unit), top = hn::Set(f, -maximum);
  Vector total = hn::Zero(f);
  for (int64_t c = 0; c < width; c += kLanes) {
    const Vector weight = Exp2(hn::MulAdd(hn::Load(f, row + c), units, top));
    hn::Store(weight, f, row + c);
    total = hn::Add(total, weight);
  }
  Fill(row, 0, seen.begin, 0.0f);
  Fill(row, seen.end, width, 0.0f);
  const float shrink = hn::GetLane(Exp2(hn::Set(f, before - maximum)));
  sum = sum * shrink + hn::GetLane(hn::SumOfLanes(f, total));
  return shrink;
}

// Converts one row of products Q K^T to the softmax weights P, and one row `gradient` of dout V^T
// to the gradient of these products.
inline void SoftenBack(const Scores& scores, float* row, float* gradient, int64_t width, Range seen,
                       float lse, float delta) {
  const Floats f;
  scores.Bend(row, width);
  const Vector units = hn::Set(f, scores.unit()), top = hn::Set(f, -lse * kLog2E),
               scale = hn::Set(f, scores.scale()), less = hn::Set(f, -delta * scores.scale());
  for (int64_t c = 0; c < width; c += kLanes) {
    const Vector product = hn::Load(f, row + c);
    const Vector weight = Exp2(hn::MulAdd(product, units, top));
    Vector of_score = hn::Mul(weight, hn::MulAdd(hn::Load(f, gradient + c), scale, less));
    if (scores.bent()) of_score = hn::Mul(of_score, scores.Slope(product));
    hn::Store(weight, f, row + c);
    hn::Store(of_score, f, gradient + c);
  }
  for (float* some : {row, gradient}) {
    Fill(some, 0, seen.begin, 0.0f);
    Fill(some, seen.end, width, 0.0f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moonring::attention
HWY_AFTER_NAMESPACE();

#endif  // MOONRING_ATTENTION_KERNELS_SOFTMAX_ROWS_INL_H_
