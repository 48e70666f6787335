#include "attention/kernels/strip_scores.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "kernels/choice.h"
#include "kernels/score_rows.h"

namespace moonring::attention {
namespace {

bool IsByKernel(const at::Tensor& x) { return kernels::UseKernel(x, kernels::kScoreRows); }

kernels::ScoreCurve CurveOf(const ScoreFunction& score) { return {score.scale, score.softcap}; }

// Mask of the pairs that are not attended to, bool [B, 1, M, N].
at::Tensor HiddenPairs(const at::Tensor& x, const at::Tensor& seen_B4) {
  const auto column = [&](int64_t i) { return seen_B4.select(1, i).view({-1, 1, 1, 1}); };
  const at::Tensor i = at::arange(x.size(2), seen_B4.options()).view({1, 1, -1, 1}),
                   j = at::arange(x.size(3), seen_B4.options()).view({1, 1, 1, -1});
  return i.ge(column(0))
      .logical_or(j.ge(column(1)))
      .logical_or(j.lt(i + column(2)))
      .logical_or(j.gt(i + column(3)));
}

// Overwrites x with y and returns it. y = tanh(scale x / softcap), or scale x without a softcap;
// the score is cap() y.
at::Tensor BendInPlace(const at::Tensor& x, const ScoreFunction& score) {
  x.mul_(score.scale / score.cap());
  return score.softcap != 0.0 ? x.tanh_() : x;
}

}  // namespace

StripSoftmax SoftmaxOfStrip(const at::Tensor& x_BHMN, const at::Tensor& seen_B4,
                            const ScoreFunction& score, at::ScalarType type) {
  if (IsByKernel(x_BHMN)) {
    const auto sums = [&] { return at::empty(x_BHMN.sizes().slice(0, 3), x_BHMN.options()); };
    const at::Tensor p = kernels::NarrowOver(x_BHMN, type), sum = sums(), lse = sums();
    kernels::ScoreRows(x_BHMN, seen_B4, CurveOf(score), p, {sum, lse});
    return {p, sum.unsqueeze(3), lse.unsqueeze(3)};
  }
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const at::Tensor z =
      BendInPlace(x_BHMN, score)
          .mul_(score.cap())
          .masked_fill_(HiddenPairs(x_BHMN, seen_B4), -std::numeric_limits<double>::infinity());
  const at::Tensor max = z.amax({3}, /*keepdim=*/true).clamp_min_(kLowest), e = z.sub_(max).exp_(),
                   sum = e.sum({3}, /*keepdim=*/true);
  return {e.to(type), sum.masked_fill(sum.eq(0), 1.0), sum.log().add_(max)};
}

StripGradients GradientsOfStrip(const at::Tensor& x_BHMN, const at::Tensor& y_BHMN,
                                const at::Tensor& lse_BHM1, const at::Tensor& delta_BHM1,
                                const at::Tensor& seen_B4, const ScoreFunction& score,
                                at::ScalarType type) {
  if (IsByKernel(x_BHMN)) {
    const at::Tensor p = kernels::NarrowOver(x_BHMN, type), ds = kernels::NarrowOver(y_BHMN, type);
    kernels::ScoreRowsBackward(x_BHMN, y_BHMN, lse_BHM1.squeeze(3), delta_BHM1.squeeze(3), seen_B4,
                               CurveOf(score), {p, ds});
    return {p, ds};
  }
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const at::Tensor
      hidden = HiddenPairs(x_BHMN, seen_B4),
      y = BendInPlace(x_BHMN, score),
      p = y.mul(score.cap()).sub_(lse_BHM1.clamp_min(kLowest)).exp_().masked_fill_(hidden, 0.0);
  at::Tensor ds = y_BHMN.sub_(delta_BHM1).mul_(p);
  if (score.softcap != 0.0) ds = ds.mul_(y.square_().neg_().add_(1.0));
  return {p.to(type), ds.masked_fill_(hidden, 0.0).to(type)};
}

}  // namespace moonring::attention
