#include "kernels/delta_scores.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

constexpr int64_t kChunks = 2, kHeads = 3, kKeys = 24, kWidth = 40;
// Bound for sums of 64 terms and more.
constexpr double kBound = 1e-6;

at::Tensor RandomChunks(int64_t rows, int64_t columns) {
  return at::randn({kChunks, kHeads, rows, columns});
}
at::Tensor Wide(const at::Tensor& x) { return x.to(at::kDouble); }

// The decay between two positions: exp(D) on and below the diagonal, in fp64.
at::Tensor PairDecay(const at::Tensor& g) {
  const at::Tensor sums = g.cumsum(2), all = (sums - sums.mT()).exp();
  return at::where(at::ones({64, 64}, at::kBool).tril(), all, at::zeros({}, at::kDouble));
}

struct Inside {
  at::Tensor query, key, g, beta;  // of products
};
Inside InsideOf() {
  at::manual_seed(37);
  const at::Tensor k = RandomChunks(64, kKeys), unit = k / k.norm(2, -1, true);
  return {at::matmul(RandomChunks(64, kKeys), unit.mT()), at::matmul(unit, unit.mT()),
          at::rand({kChunks, kHeads, 64, 1}).mul(-0.2), at::rand({kChunks, kHeads, 64, 1})};
}

Tensors CallScores(const Inside& in) {
  const at::Tensor query = in.query.clone(), key = in.key.clone();
  const DeltaInverse made = DeltaScores(query, key, in.g, in.beta);
  return {query, key, made.inverse_NHCC, made.scaled_NHCC};
}

TEST(DeltaScoresTest, ScoresAndInverse) {
  const Inside in = InsideOf();
  const Poison poison;
  const Tensors made = CallScores(in);
  const at::Tensor decay = PairDecay(Wide(in.g)), key = (Wide(in.key) * decay).tril(-1),
                   inverse = at::linalg_inv(at::eye(64, at::kDouble) + key * Wide(in.beta));
  EXPECT_TRUE(RelativeError(made[0], Wide(in.query) * decay, kBound));
  EXPECT_TRUE(RelativeError(made[1], key, kBound));
  EXPECT_TRUE(RelativeError(made[2], inverse, kBound));
  EXPECT_TRUE(RelativeError(made[3], inverse * Wide(in.beta).mT(), kBound));
  const at::Tensor alone = in.key.clone();
  EXPECT_TRUE(BitEqual(DeltaScores({}, alone, in.g, in.beta).inverse_NHCC, made[2]));
}

// A decay of -infinity erases the state: results contain no NaN, and nothing before it has an
// effect after it.
TEST(DeltaScoresTest, ADecayOfMinusInfinity) {
  Inside in = InsideOf();
  in.g.select(2, 20).fill_(-INFINITY);
  const Tensors made = CallScores(in);
  for (const at::Tensor& x : made) EXPECT_TRUE(x.isfinite().all().item<bool>());
  EXPECT_TRUE(made[0].narrow(2, 20, 44).narrow(3, 0, 20).eq(0).all().item<bool>());
  EXPECT_TRUE(made[2].narrow(2, 20, 44).narrow(3, 0, 20).eq(0).all().item<bool>());
}

struct Columns {
  at::Tensor p, r, dbeta, dg;
};
Columns CallBackward(const Inside& in, const Tensors& scores, const at::Tensor& p,
                     const at::Tensor& r) {
  const at::Tensor made_p = p.clone(), made_r = r.clone();
  const DeltaColumns columns =
      DeltaScoresBackward(made_p, made_r, scores[0], scores[1], in.g, in.beta);
  return {made_p, made_r, columns.beta_NHC1, columns.g_NHC1};
}

// Gradients equal autograd's in fp64 for the loss sum (query P) - sum (Diag(beta) key R), with the
// incoming gradients P and R. The second term is the contribution of the linear system if R is dr
// U^T.
TEST(DeltaScoresTest, BackwardIsAutograds) {
  const Inside in = InsideOf();
  const Tensors scores = CallScores(in);
  const at::Tensor p = RandomChunks(64, 64), r = RandomChunks(64, 64);
  const auto leaf = [](const at::Tensor& x) { return Wide(x).clone().requires_grad_(); };
  const at::Tensor query = leaf(in.query), key = leaf(in.key), g = leaf(in.g), beta = leaf(in.beta);
  const at::Tensor decay = PairDecay(g);
  const at::Tensor sum =
      (query * decay * Wide(p)).sum() - ((key * decay).tril(-1) * beta * Wide(r)).sum();
  const Tensors wanted = torch::autograd::grad({sum}, {query, key, g, beta});
  const Poison poison;
  const Columns made = CallBackward(in, scores, p, r);
  EXPECT_TRUE(RelativeError(made.p, wanted[0], kBound));
  EXPECT_TRUE(RelativeError(made.r, wanted[1] + wanted[1].mT(), kBound));
  EXPECT_TRUE(RelativeError(made.dg, wanted[2], kBound));
  EXPECT_TRUE(RelativeError(made.dbeta, wanted[3], kBound));
}

struct ScoreGradientRows {
  DeltaGradientRows rows;
  Tensors Changed() const { return {rows.dq, rows.dk, rows.dr, rows.dbeta, rows.dg}; }
};
ScoreGradientRows CallGradients(const DeltaGradientRows& given) {
  ScoreGradientRows made{given};
  for (at::Tensor* x :
       {&made.rows.dq, &made.rows.dk, &made.rows.dr, &made.rows.dbeta, &made.rows.dg})
    *x = x->clone();
  DeltaGradients(made.rows);
  return made;
}

DeltaGradientRows GradientRows() {
  at::manual_seed(41);
  const auto column = [] { return at::rand({kChunks, kHeads, 64, 1}); };
  return {.dq = RandomChunks(64, kKeys),
          .dk = RandomChunks(64, kKeys),
          .dr = RandomChunks(64, kWidth),
          .d_start_q = RandomChunks(64, kKeys),
          .d_start_k = RandomChunks(64, kKeys),
          .d_end_k = RandomChunks(64, kKeys),
          .q = RandomChunks(64, kKeys),
          .k = RandomChunks(64, kKeys),
          .unscaled = RandomChunks(64, kWidth),
          .states = RandomChunks(kWidth, kKeys),
          .d_states = RandomChunks(kWidth, kKeys),
          .beta = column(),
          .from_start = column(),
          .to_end = column(),
          .dbeta = column(),
          .dg = column()};
}

TEST(DeltaScoresTest, GradientsAreTheDefinition) {
  const DeltaGradientRows in = GradientRows();
  const Tensors made = CallGradients(in).Changed();
  const at::Tensor from_start = Wide(in.from_start), beta = Wide(in.beta),
                   start_q = Wide(in.d_start_q) * from_start,
                   start_k = -Wide(in.d_start_k) * from_start * beta,
                   end_k = Wide(in.d_end_k) * Wide(in.to_end);
  const at::Tensor of_start = (start_q * Wide(in.q) + start_k * Wide(in.k)).sum(-1, true),
                   of_end = (end_k * Wide(in.k)).sum(-1, true);
  const at::Tensor whole =
      (Wide(in.states) * Wide(in.d_states)).sum({2, 3}, true) * from_start.narrow(2, 63, 1);
  const Tensors wanted = {
      Wide(in.dq) + start_q, Wide(in.dk) + start_k + end_k, Wide(in.dr) * beta,
      Wide(in.dbeta) + (Wide(in.dr) * Wide(in.unscaled)).sum(-1, true),
      Wide(in.dg) + of_start.flip(2).cumsum(2).flip(2) + of_end.cumsum(2) - of_end + whole};
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(RelativeError(made[i], wanted[i], kBound)) << i;
}

TEST(DeltaScoresTest, AnyOrderOfThreads) {
  const Inside in = InsideOf();
  const DeltaGradientRows rows = GradientRows();
  const at::Tensor p = RandomChunks(64, 64), r = RandomChunks(64, 64);
  const auto all = [&] {
    Tensors made = CallScores(in);
    const Columns columns = CallBackward(in, made, p, r);
    for (const at::Tensor& x : {columns.p, columns.r, columns.dbeta, columns.dg}) made.push_back(x);
    for (const at::Tensor& x : CallGradients(rows).Changed()) made.push_back(x);
    return made;
  };
  const Tensors wanted = all();
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    const Tensors made = all();
    for (size_t i = 0; i < made.size(); ++i) EXPECT_TRUE(BitEqual(made[i], wanted[i])) << i;
  }
}

TEST(DeltaScoresTest, NothingAndWhatIsRefused) {
  const at::Tensor none = at::empty({0, 2, 64, 64}), column = at::empty({0, 2, 64, 1});
  EXPECT_EQ(DeltaScores(none.clone(), none.clone(), column, column).inverse_NHCC.numel(), 0);
  const Inside in = InsideOf();
  EXPECT_THROW(DeltaScores({}, in.key.to(at::kDouble), in.g, in.beta), c10::Error);
  EXPECT_THROW(DeltaScores({}, in.key.mT(), in.g, in.beta), c10::Error);
  EXPECT_THROW(DeltaScores(in.query.narrow(2, 0, 32), in.key.clone(), in.g, in.beta), c10::Error);
  EXPECT_THROW(DeltaScores({}, in.key.clone(), in.g.squeeze(3), in.beta), c10::Error);
  DeltaGradientRows rows = GradientRows();
  rows.d_end_k = rows.d_end_k.narrow(3, 0, 8);
  EXPECT_THROW(DeltaGradients(rows), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
