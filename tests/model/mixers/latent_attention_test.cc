// Multi-head latent attention compared with its equations in plain operators, in values and every
// gradient: with one and with two matrices for the queries, with and without rotary features.

#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/blocks/block_maps.h"
#include "model/blocks/block_rows.h"
#include "model/blocks/block_rule.h"
#include "model/config/block_weights.h"
#include "model/mixers/mixers.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"

namespace moonring::model {
namespace {

using ::moonring::testing::MaskedAttention;
using ::moonring::testing::RelativeError;

constexpr int64_t kLatentHidden = 10, kLatentHeads = 3;
const std::vector<int64_t> kLatentLengths = {7, 1, 12};

BlockRule RuleOf(int64_t query_rank) {
  BlockRule rule{
      .heads = kLatentHeads, .kv_heads = kLatentHeads, .head_dim = 9, .rms_norm_eps = 1e-2};
  rule.matmul_dtype = at::kDouble;
  rule.latent = {.key_value_rank = 6,
                 .query_rank = query_rank,
                 .plain_dim = 5,
                 .rotary_dim = 4,
                 .value_dim = 7,
                 .norm_eps = 1e-3};
  rule.scores.scale = 1 / std::sqrt(9.0);
  return rule;
}

std::vector<at::Tensor> WeightsOf(const BlockRule& rule) {
  const LatentRule& latent = rule.latent;
  std::vector<at::Tensor> weights(kBlockWeights);
  const auto draw = [&](int place, std::vector<int64_t> shape) {
    at::Tensor weight = at::randn(shape, at::kDouble) * 0.4;
    if (IsNorm(place)) weight.add_(1.0);
    weights[place] = weight.requires_grad_();
  };
  const int64_t queries = kLatentHeads * latent.key_dim();
  draw(kInputNorm, {kLatentHidden});
  if (latent.query_rank == 0) {
    draw(kQuery, {queries, kLatentHidden});
  } else {
    draw(kQueryDown, {latent.query_rank, kLatentHidden});
    draw(kQueryDownNorm, {latent.query_rank});
    draw(kQueryUp, {queries, latent.query_rank});
  }
  draw(kKeyValueDown, {latent.key_value_rank + latent.rotary_dim, kLatentHidden});
  draw(kKeyValueDownNorm, {latent.key_value_rank});
  draw(kKeyValueUp, {kLatentHeads * (latent.plain_dim + latent.value_dim), latent.key_value_rank});
  return weights;
}

at::Tensor LatentNorm(const at::Tensor& x, const at::Tensor& w, double eps) {
  return w * x / (x.pow(2).mean(1, true) + eps).sqrt();
}

// Rotates adjacent features (2f, 2f + 1), as complex numbers, by e^(i angle).
at::Tensor TurnPairs(const at::Tensor& x_THD, const at::Tensor& angles_T1F) {
  const at::Tensor turned = at::view_as_complex(x_THD.contiguous().unflatten(2, {-1, 2})) *
                            at::polar(at::ones_like(angles_T1F), angles_T1F);
  return at::view_as_real(turned).flatten(2);
}

// Computes latent attention from its equations. If `angles_T1F` is undefined, nothing is rotated.
at::Tensor LatentByItsEquations(const BlockRule& rule, const std::vector<at::Tensor>& w,
                                const at::Tensor& hidden, const at::Tensor& angles_T1F) {
  const LatentRule& latent = rule.latent;
  const int64_t rows = hidden.size(0);
  const at::Tensor n = LatentNorm(hidden, w[kInputNorm], rule.rms_norm_eps);
  at::Tensor q = w[kQuery].defined() ? at::matmul(n, w[kQuery].t())
                                     : at::matmul(LatentNorm(at::matmul(n, w[kQueryDown].t()),
                                                             w[kQueryDownNorm], latent.norm_eps),
                                                  w[kQueryUp].t());
  q = q.view({rows, kLatentHeads, latent.key_dim()});
  const at::Tensor down = at::matmul(n, w[kKeyValueDown].t());
  const at::Tensor c =
      LatentNorm(down.narrow(1, 0, latent.key_value_rank), w[kKeyValueDownNorm], latent.norm_eps);
  at::Tensor shared = down.narrow(1, latent.key_value_rank, latent.rotary_dim).unsqueeze(1);
  at::Tensor turning = q.narrow(2, latent.plain_dim, latent.rotary_dim);
  if (angles_T1F.defined()) {
    turning = TurnPairs(turning, angles_T1F);
    shared = TurnPairs(shared, angles_T1F);
  }
  const at::Tensor up = at::matmul(c, w[kKeyValueUp].t())
                            .view({rows, kLatentHeads, latent.plain_dim + latent.value_dim});
  q = at::cat({q.narrow(2, 0, latent.plain_dim), turning}, 2);
  const at::Tensor k = at::cat({up.narrow(2, 0, latent.plain_dim),
                                shared.repeat_interleave(kLatentHeads, 1)},
                               2),
                   v = up.narrow(2, latent.plain_dim, latent.value_dim);
  std::vector<at::Tensor> documents;
  int64_t first = 0;
  for (const int64_t length : kLatentLengths) {
    const auto of = [&](const at::Tensor& x) { return x.narrow(0, first, length).transpose(0, 1); };
    const at::Tensor later = at::ones({length, length}, at::kBool).triu(1);
    const at::Tensor scores = at::matmul(of(q), of(k).transpose(1, 2))
                                  .mul(rule.scores.scale)
                                  .masked_fill(later, -INFINITY);
    documents.push_back(at::matmul(scores.softmax(2), of(v)).transpose(0, 1).flatten(1));
    first += length;
  }
  return at::cat(documents);
}

TEST(LatentAttentionTest, IsItsEquations) {
  at::manual_seed(4);
  std::vector<at::Tensor> positions;
  for (const int64_t length : kLatentLengths) positions.push_back(at::arange(length, at::kLong));
  const at::Tensor positions_T = at::cat(positions);
  const RotaryRule rotary_rule{.theta = 30.0, .dim = 4, .interleaved = true};
  const Rotary rotary = MakeRotary(rotary_rule, positions_T, at::Tensor(), at::kDouble);
  const at::Tensor frequencies = at::pow(30.0, at::arange(0, 4, 2, at::kDouble) * -0.25);
  const at::Tensor angles_T1F =
      (positions_T.to(at::kDouble).unsqueeze(1) * frequencies).unsqueeze(1);
  for (const int64_t query_rank : {0, 5}) {
    for (const bool turns : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "query rank " << query_rank << ", turns " << turns);
      const BlockRule rule = RuleOf(query_rank);
      const std::vector<at::Tensor> weights = WeightsOf(rule);
      const at::Tensor hidden =
          at::randn({positions_T.size(0), kLatentHidden}, at::kDouble).requires_grad_();
      MaskedAttention attention(kLatentLengths);
      const at::Tensor got = kLatentAttention
                                 .run(rule, BlockMaps(weights), hidden,
                                      {.rotary = turns ? &rotary : nullptr}, attention, nullptr)
                                 .heads_TC,
                       want = LatentByItsEquations(rule, weights, hidden,
                                                   turns ? angles_T1F : at::Tensor());
      EXPECT_TRUE(RelativeError(got, want, 1e-13));
      std::vector<at::Tensor> leaves = {hidden};
      for (const at::Tensor& weight : weights) {
        if (weight.defined()) leaves.push_back(weight);
      }
      const at::Tensor dout = at::randn_like(got);
      const auto of_got = torch::autograd::grad({got}, leaves, {dout}),
                 of_want = torch::autograd::grad({want}, leaves, {dout});
      for (size_t i = 0; i < leaves.size(); ++i)
        EXPECT_TRUE(RelativeError(of_got[i], of_want[i], 1e-12)) << "leaf " << i;
    }
  }
}

}  // namespace
}  // namespace moonring::model
