#include "mixers/rule/decayed_scores.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace moonring::mixers {
namespace {

// exp(D) on and below the diagonal, zeros above it. g_NHC1.
at::Tensor PairDecay(const at::Tensor& g_NHC1) {
  const int64_t rows = g_NHC1.size(2);
  const at::Tensor upper = at::ones({rows, rows}, g_NHC1.options().dtype(at::kBool)).triu();
  const auto shape = {g_NHC1.size(0), g_NHC1.size(1), rows, rows};
  return g_NHC1.expand(shape).masked_fill(upper, 0).cumsum(2).exp_().tril_();
}

ScoreGradients OneDecayBackward(const Scores& gradients, const Scores& made, const at::Tensor& q,
                                const at::Tensor& k) {
  const at::Tensor query = gradients.query_NHCC * made.decay_NHCC;
  ScoreGradients result{at::matmul(query, k), at::matmul(query.mT(), q), {}};
  // The gradient of g_m is the sum of D's gradients with j < m <= i. From m to m + 1, column m is
  // added to this sum and row m is removed.
  const at::Tensor exponent = gradients.query_NHCC * made.query_NHCC;
  if (gradients.key_NHCC.defined()) {
    const at::Tensor key = (gradients.key_NHCC * made.decay_NHCC).tril_(-1);
    result.k_NHCK = result.k_NHCK + at::matmul(key, k) + at::matmul(key.mT(), k);
    exponent.addcmul_(gradients.key_NHCC, made.key_NHCC);
  }
  exponent.diagonal(0, 2, 3).zero_();
  result.g_NHCX = SumBefore((exponent.sum(2) - exponent.sum(3)).unsqueeze(-1));
  return result;
}

// Divides the rows into blocks of 2 h rows, each as two halves: [N, H, blocks, 2, h, X].
at::Tensor Halves(const at::Tensor& x_NHCX, int64_t half) {
  return x_NHCX.reshape(
      {x_NHCX.size(0), x_NHCX.size(1), x_NHCX.size(2) / (2 * half), 2, half, x_NHCX.size(3)});
}

// The squares of side `half` below the diagonal of `scores`, as a view: [N, H, blocks, h, h].
at::Tensor Squares(const at::Tensor& scores, int64_t half) {
  const int64_t blocks = scores.size(2) / (2 * half);
  return scores.view({scores.size(0), scores.size(1), blocks, 2 * half, blocks, 2 * half})
      .diagonal(0, 2, 4)
      .permute({0, 1, 4, 2, 3})
      .narrow(3, half, half)
      .narrow(4, 0, half);
}

// The factors of the squares of one side (decayed_scores.h). `rows` has q and k of the second
// halves, decayed from the boundary and concatenated; `columns` has k of the first halves, decayed
// to the boundary.
struct Level {
  at::Tensor q, k, earlier_k;         // [N, H, blocks, h, d_k]
  at::Tensor from_border, to_border;  // exp(D)
  at::Tensor rows, columns;           // [N, H, blocks, 2 h, d_k] and [N, H, blocks, h, d_k]
};

// Computes a Level. If `of_keys` is false, `rows` has only the rows of q.
Level LevelOf(const at::Tensor& q, const at::Tensor& k, const at::Tensor& g, int64_t half,
              bool of_keys) {
  const at::Tensor keys = Halves(k, half), decays = Halves(g, half);
  Level level{.q = Halves(q, half).select(3, 1),
              .k = keys.select(3, 1),
              .earlier_k = keys.select(3, 0),
              .from_border = decays.select(3, 1).cumsum(-2).exp_(),
              .to_border = SumAfter(decays.select(3, 0)).exp_()};
  level.rows = level.q * level.from_border;
  if (of_keys) level.rows = at::cat({level.rows, level.k * level.from_border}, -2);
  level.columns = level.earlier_k * level.to_border;
  return level;
}

}  // namespace

at::Tensor SumBefore(const at::Tensor& x) {
  const int64_t rows = x.size(-2);
  at::Tensor sums = at::zeros_like(x, at::MemoryFormat::Contiguous);
  if (rows > 1) sums.narrow(-2, 1, rows - 1).copy_(x.narrow(-2, 0, rows - 1).cumsum(-2));
  return sums;
}

at::Tensor SumAfter(const at::Tensor& x) { return SumBefore(x.flip(-2)).flip(-2); }

Scores DecayedScores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& g, bool of_keys) {
  const int64_t rows = q.size(2);
  if (g.size(3) == 1) {
    const at::Tensor decay = PairDecay(g);
    return {at::matmul(q, k.mT()).mul_(decay),
            of_keys ? at::matmul(k, k.mT()).mul_(decay).tril_(-1) : at::Tensor(), decay};
  }
  Scores scores{at::zeros({q.size(0), q.size(1), rows, rows}, q.options()), {}, {}};
  if (of_keys) scores.key_NHCC = at::zeros_like(scores.query_NHCC);
  for (int64_t half = 1; half < rows; half *= 2) {
    const Level level = LevelOf(q, k, g, half, of_keys);
    const at::Tensor squares = at::matmul(level.rows, level.columns.mT());
    Squares(scores.query_NHCC, half).copy_(squares.narrow(3, 0, half));
    if (of_keys) Squares(scores.key_NHCC, half).copy_(squares.narrow(3, half, half));
  }
  scores.query_NHCC.diagonal(0, 2, 3).copy_((q * k).sum(-1));
  return scores;
}

ScoreGradients DecayedScoresBackward(const Scores& gradients, const Scores& made,
                                     const at::Tensor& q, const at::Tensor& k,
                                     const at::Tensor& g) {
  if (g.size(3) == 1) return OneDecayBackward(gradients, made, q, k);
  const bool of_keys = gradients.key_NHCC.defined();
  const at::Tensor by_query = gradients.query_NHCC.contiguous();
  const at::Tensor by_key = of_keys ? gradients.key_NHCC.contiguous() : at::Tensor();
  const at::Tensor diagonal = by_query.diagonal(0, 2, 3).unsqueeze(-1);
  ScoreGradients result{(diagonal * k).contiguous(), (diagonal * q).contiguous(),
                        at::zeros_like(g, at::MemoryFormat::Contiguous)};
  for (int64_t half = 1; half < q.size(2); half *= 2) {
    const Level level = LevelOf(q, k, g, half, of_keys);
    at::Tensor squares = Squares(by_query, half);
    if (of_keys) squares = at::cat({squares, Squares(by_key, half)}, -2);
    const at::Tensor rows = at::matmul(squares, level.columns);
    const at::Tensor columns = at::matmul(squares.mT(), level.rows);
    const at::Tensor keys = Halves(result.k_NHCK, half), decays = Halves(result.g_NHCX, half);
    Halves(result.q_NHCK, half).select(3, 1).add_(rows.narrow(3, 0, half) * level.from_border);
    if (of_keys) keys.select(3, 1).add_(rows.narrow(3, half, half) * level.from_border);
    keys.select(3, 0).add_(columns * level.to_border);
    const at::Tensor by_row = rows * level.rows;
    at::Tensor from_border = by_row.narrow(3, 0, half);
    if (of_keys) from_border = from_border + by_row.narrow(3, half, half);
    decays.select(3, 1).add_(SumAfter(from_border).add_(from_border));
    decays.select(3, 0).add_(SumBefore(columns * level.columns));
  }
  return result;
}

}  // namespace moonring::mixers
