// Prints the distance of each kernel's result from the fp64 result of the same inputs, for
// docs/gpu-design.md, and checks bounds. The bound per number is half a unit in the result's last
// place (2^-9 in bf16, 2^-25 in fp32), in fp32 plus the error of sums and exponentials; in TF32 at
// most 2^-11 of an operand.

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/adamw.h"
#include "kernels/cross_entropy_rows.h"
#include "kernels/delta_pack.h"
#include "kernels/delta_scan.h"
#include "kernels/delta_scores.h"
#include "kernels/gated.h"
#include "kernels/paged_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary.h"
#include "kernels/score_rows.h"
#include "kernels/short_convolution.h"
#include "kernels/softmax_merge.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::RelativeErrorOf;
using TensorList = std::vector<at::Tensor>;

constexpr int64_t kErrorRows = 131, kErrorWidth = 576;

// Results of a kernel for inputs in the dtype of hidden states and in that of products.
struct Measured {
  std::string name;
  std::function<TensorList(const TensorList& of_stream, const TensorList& of_products)> run;
  double fp32_bound = 3e-7;
};

at::Tensor RandomInputs() { return at::randn({kErrorRows, kErrorWidth}, at::kDouble); }

TensorList Norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& weight,
                const at::Tensor& dy) {
  const RmsNormed made = RmsNorm(x, added, 1.0, weight, 1e-5, dy.scalar_type());
  const RmsNormGradients d = RmsNormBackward(dy, made.sum_TD.defined() ? made.sum_TD : x, weight,
                                             made.rstd_T1, at::Tensor(), 1.0, {});
  return {made.y_TD, d.x_TD, d.weight_D};
}

TensorList GatedBoth(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dp) {
  at::Tensor d = dp.clone();
  const at::Tensor product = Gated(gate, up, Gate::kSilu),
                   dup = GatedBackward(d, gate, up, Gate::kSilu);
  return {product, d, dup};
}

TensorList CrossEntropyBoth(const at::Tensor& given) {
  at::Tensor scores = given.clone();
  const at::ScalarType wide = given.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor picked = at::empty({kErrorRows}, wide),
                   logsumexp = at::empty({kErrorRows}, wide),
                   targets = at::arange(kErrorRows, at::kLong);
  CrossEntropyRows(scores, 0.0, targets, {picked, logsumexp, {}, {}});
  CrossEntropyRowsBackward(scores, 0.0, 0.1, targets, logsumexp);
  return {logsumexp, scores};
}

// Merges two partial results. Their lse are the first 18 columns of `lse`.
TensorList Merged(const at::Tensor& out, const at::Tensor& other, const at::Tensor& lse) {
  const auto heads = [](const at::Tensor& x) { return x.view({kErrorRows, 9, 64}); };
  const SoftmaxSums sums = {at::full({kErrorRows, 9}, -INFINITY, lse.options()),
                            at::zeros({kErrorRows, 9}, lse.options()),
                            at::zeros({kErrorRows, 9, 64}, lse.options())};
  SoftmaxMerge(heads(out), lse.narrow(1, 0, 9), {}, sums);
  SoftmaxMerge(heads(other), lse.narrow(1, 9, 9), {}, sums);
  SoftmaxFinish(sums);
  return {sums.weighted_THD, sums.max_TH};
}

// Paged attention: nine query heads over three kv heads of dim 64, keys and values in blocks of 64
// tokens; some rows attend to two pieces. For fp64, which the kernel does not support, computes the
// definition.
TensorList Decoded(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor rows = q.view({kErrorRows, 9, 64}).narrow(0, 0, 3),
                   keys = k.narrow(0, 0, 128).narrow(1, 0, 192).view({2, 64, 3, 64}),
                   values = v.narrow(0, 0, 128).narrow(1, 0, 192).view({2, 64, 3, 64});
  const at::Tensor by_column = keys.permute({0, 2, 3, 1}).contiguous(),
                   by_row = values.transpose(1, 2).contiguous();
  if (q.scalar_type() != at::kDouble) {
    const PagedTable table =
        TableOf({{{{1, 0, 64}}, {0, 1}}, {{{0, 3, 50}}, {1, 0}}, {{{1, 7, 9}}, {2}}}, {0, 1, 2});
    const at::Tensor out = at::empty({3, 9, 64}, at::kFloat), lse = at::empty({3, 9}, at::kFloat);
    PagedAttention({rows, by_column, by_row, at::tensor(table.words, at::kInt), out, lse}, table,
                   0.125, 0.0);
    return {out, lse};
  }
  const auto attend = [&](const at::Tensor& of, const at::Tensor& key, const at::Tensor& value) {
    const at::Tensor scores =
        at::matmul(of.unflatten(1, {3, 3}).transpose(0, 1).flatten(1, 2), key) * 0.125;
    const auto back = [&](const at::Tensor& x) {
      return x.unflatten(1, {of.size(0), 3}).transpose(0, 1).flatten(1, 2);
    };
    return std::make_pair(back(at::matmul(scores.softmax(2), value)),
                          back(scores.logsumexp({2}, true)).squeeze(-1));
  };
  const auto both = [](const at::Tensor& x, int64_t dim) {
    return at::cat({x[0].slice(dim, 3, 50), x[1]}, dim);
  };
  const auto first = attend(rows.narrow(0, 0, 2), both(by_column, 2), both(by_row, 1)),
             last = attend(rows.narrow(0, 2, 1), by_column[1].slice(2, 7, 9),
                           by_row[1].slice(1, 7, 9));
  return {at::cat({first.first, last.first}), at::cat({first.second, last.second})};
}

// The softmax of a row's scores (e, p) and its gradient ds. For fp64, which the kernel does not
// support, computes the definition.
TensorList ScoreRowsBoth(const at::Tensor& given) {
  const at::Tensor x = given.view({1, 1, kErrorRows, kErrorWidth}), y = x.flip(3),
                   delta = x.select(3, 0).contiguous();
  const ScoreCurve curve{.scale = 0.8, .softcap = 3.0};
  if (given.scalar_type() == at::kDouble) {
    const at::Tensor bent = (x * (curve.scale / curve.softcap)).tanh(), z = bent * curve.softcap,
                     lse = z.logsumexp({3}), p = (z - lse.unsqueeze(3)).exp();
    return {(z - z.amax({3}, true)).exp(), lse, p,
            p * (y - delta.unsqueeze(3)) * (1.0 - bent.square())};
  }
  const auto narrow = [&] { return at::empty(x.sizes(), at::kBFloat16); };
  const at::Tensor seen = at::tensor({kErrorRows, kErrorWidth, -1000L, 1000L}, at::kLong),
                   e = narrow(), p = narrow(), ds = narrow(), sum = at::empty_like(delta),
                   lse = at::empty_like(delta);
  ScoreRows(x, seen.view({1, 4}), curve, e, {sum, lse});
  ScoreRowsBackward(x, y, lse, delta, seen.view({1, 4}), curve, {p, ds});
  return {e, lse, p, ds};
}

// The short convolution, forward and backward, of two documents. The first three rows are the halo
// (preceding rows) of the first document.
TensorList ConvolvedBoth(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& of_stream) {
  const at::Tensor bias = of_stream.select(0, 0).contiguous();
  const ConvolutionTensors given{
      x.narrow(0, 3, kErrorRows - 3), of_stream.narrow(0, 1, 4).t().contiguous(), bias,
      x.narrow(0, 0, 3),
      at::tensor({0, 0, 80, 3, static_cast<int>(kErrorRows) - 3, 3}, at::kLong).view({3, 2})};
  const ConvolutionGradients d =
      ShortConvolutionBackward(dy.narrow(0, 3, kErrorRows - 3), given, /*silu=*/true);
  return {ShortConvolution(given, /*silu=*/true), d.x_TC, d.halo_RC, d.weight_CW, d.bias_C};
}

// The delta rule's scan over two chunks of one head with 64 channels and a state of 64 rows. For
// fp64, which the kernel does not support, computes the definition.
TensorList Scanned(const at::Tensor& x, bool tf32) {
  const auto chunks = [&](int64_t begin) {
    return x.narrow(0, 0, 128).narrow(1, begin, 64).contiguous().view({2, 1, 64, 64});
  };
  const at::Tensor a = chunks(0) * 0.1, b = chunks(64) * 0.1, written = chunks(128),
                   decay = chunks(192).select(3, 0).narrow(2, 0, 1).unsqueeze(3).sigmoid();
  at::Tensor state = chunks(256).narrow(0, 0, 1).clone();
  const at::Tensor states = at::empty_like(a);
  if (x.scalar_type() != at::kDouble) {
    DeltaScan({a, b, written, {}, decay, state, states, at::tensor({0, 1, 2}, at::kLong)}, false,
              tf32);
    return {written, states, state};
  }
  for (int64_t chunk = 0; chunk < 2; ++chunk) {
    states[chunk].copy_(state[0]);
    written[chunk].sub_(at::matmul(a[chunk], state[0].mT()));
    state = state * decay[chunk] + at::matmul(written[chunk].mT(), b[chunk]);
  }
  return {written, states, state};
}

// Packs rows as keys and values of two heads, 128 tokens, and unpacks the gradient of the keys. For
// fp64, which the kernel does not support, computes the definition.
TensorList PackedBoth(const at::Tensor& x, const at::Tensor& of_stream) {
  const auto heads = [&](int64_t begin, int64_t count, int64_t width) {
    return x.narrow(0, 0, 128).narrow(1, begin, count * width).unflatten(1, {count, width});
  };
  const at::Tensor k = heads(0, 1, 64), v = heads(64, 2, 64),
                   g = of_stream.narrow(0, 0, 128).narrow(1, 0, 2).abs() * -0.125,
                   beta = of_stream.narrow(0, 0, 128).narrow(1, 2, 2).sigmoid(),
                   d = of_stream.narrow(0, 0, 128).narrow(1, 0, 128).reshape({2, 2, 64, 64}),
                   slots = at::arange(128, at::kLong);
  const DeltaRowsRule rule{.normalize = true, .eps = 1e-6};
  if (x.scalar_type() != at::kDouble) {
    const PackedDelta p = DeltaPack({{}, k, v, g, beta}, slots, rule);
    const at::Tensor dk = at::empty_like(k, at::MemoryFormat::Contiguous);
    DeltaUnpack(d, slots, k, 1.0, rule.eps, dk);
    return {p.k, p.start_k, p.end_k, p.from_start, dk};
  }
  const auto chunks = [](const at::Tensor& rows) {
    return rows.unflatten(0, {2, 64}).transpose(1, 2);
  };
  const at::Tensor inverse = (k.square().sum(-1, true) + rule.eps).rsqrt(), unit = k * inverse,
                   packed = chunks(unit.repeat_interleave(2, 1)), decay = chunks(g.unsqueeze(2)),
                   sums = decay.cumsum(2), dk = d.transpose(1, 2).flatten(0, 1).sum(1, true);
  return {packed, packed * sums.exp(), packed * (decay.sum(2, true) - sums).exp(), sums.exp(),
          (dk - unit * (dk * unit).sum(-1, true)) * inverse};
}

// The inverse for the scores of two chunks, and gradients. For fp64, which the kernel does not
// support, computes the definition.
TensorList ScoredBoth(const at::Tensor& x) {
  const auto chunks = [&](int64_t begin, int64_t width) {
    return x.narrow(0, 0, 128).narrow(1, begin, width).contiguous().view({2, 1, 64, width});
  };
  // Values that are exact in both dtypes.
  const auto in_fp32 = [&](const at::Tensor& made) { return made.to(x.scalar_type()); };
  const at::Tensor wide = chunks(0, 64).to(at::kFloat), unit = wide / wide.norm(2, -1, true),
                   key = in_fp32(at::matmul(unit, unit.mT())), g = chunks(64, 1).abs() * -0.125,
                   beta = in_fp32(chunks(65, 1).to(at::kFloat).sigmoid()), p = chunks(66, 64),
                   r = chunks(130, 64), query = chunks(194, 64);
  if (x.scalar_type() != at::kDouble) {
    const DeltaInverse made = DeltaScores({}, key, g, beta);
    const DeltaColumns d = DeltaScoresBackward(p, r, query, key, g, beta);
    return {key, made.inverse_NHCC, made.scaled_NHCC, r, d.beta_NHC1, d.g_NHC1};
  }
  const at::Tensor sums = g.cumsum(2), decay = (sums - sums.mT()).tril().exp().tril(),
                   scores = (key * decay).tril(-1), eye = at::eye(64, key.options()),
                   inverse = at::linalg_inv(eye + scores * beta), by_key = (-beta * r).tril(-1),
                   to_key = by_key * decay, pairs = p.tril() * query + by_key * scores;
  return {scores,
          inverse,
          inverse * beta.mT(),
          to_key + to_key.mT(),
          -(r * scores).sum(-1, true),
          pairs.flip(2).cumsum(2).flip(2).tril(-1).sum(-1, true)};
}

// One AdamW step of a weight in the dtype of products, with states in the dtype of hidden states.
TensorList AdamWStepped(const at::Tensor& given, const at::Tensor& gradient,
                        const at::Tensor& mean) {
  const at::Tensor weight = given.clone(), m = mean.clone(), v = mean.square();
  AdamW({{weight}, {gradient}, {m}, {v}, {at::full({}, 3.0, at::kFloat)}, {}, {}},
        {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .weight_decay = 0.1, .epsilon = 1e-8});
  return {weight, m, v};
}

TEST(ErrorsTest, BesideFp64) {
  at::manual_seed(29);
  const TensorList stream = {RandomInputs(), at::randn({kErrorWidth}, at::kDouble),
                             RandomInputs().narrow(1, 0, 32).unsqueeze(1).cos(),
                             RandomInputs().narrow(1, 0, 32).unsqueeze(1).sin()},
                   products = {RandomInputs(), RandomInputs(), RandomInputs()};
  const auto heads = [](const at::Tensor& x) { return x.view({kErrorRows, 9, 64}); };
  const std::vector<Measured> kernels = {
      {"rms_norm",
       [](const TensorList& s, const TensorList& p) { return Norm(s[0], {}, s[1], p[0]); }},
      {"rms_norm after a sum",
       [](const TensorList& s, const TensorList& p) { return Norm(s[0], p[1], s[1], p[0]); }},
      {"rotary",
       [&](const TensorList& s, const TensorList& p) -> TensorList {
         const Turned made = Rotate(heads(p[0]), heads(p[1]), s[2], s[3], false, false);
         return {made.q_THD, made.k_TKD};
       }},
      {"gated", [](const TensorList&, const TensorList& p) { return GatedBoth(p[0], p[1], p[2]); }},
      {"cross_entropy_rows",
       [](const TensorList&, const TensorList& p) { return CrossEntropyBoth(p[0]); }},
      {"softmax_merge",
       [](const TensorList& s, const TensorList& p) { return Merged(p[0], p[1], s[0]); }},
      {"paged_attention",
       [](const TensorList&, const TensorList& p) { return Decoded(p[0], p[1], p[2]); }},
      {"score_rows", [](const TensorList& s, const TensorList&) { return ScoreRowsBoth(s[0]); }},
      {"short_convolution",
       [](const TensorList& s, const TensorList& p) { return ConvolvedBoth(p[0], p[1], s[0]); }},
      {"delta_pack",
       [](const TensorList& s, const TensorList& p) { return PackedBoth(p[0], s[0]); }},
      {"delta_scores", [](const TensorList& s, const TensorList&) { return ScoredBoth(s[0]); }},
      {"delta_scan", [](const TensorList& s, const TensorList&) { return Scanned(s[0], false); }},
      {"delta_scan in TF32",
       [](const TensorList& s, const TensorList&) { return Scanned(s[0], true); },
       /*fp32_bound=*/5e-4},
      {"adamw", [](const TensorList& s,
                   const TensorList& p) { return AdamWStepped(p[0], s[0], s[0].flip(0)); }},
  };
  std::printf("%-22s %-8s %s\n", "kernel", "", "forward, then gradients");
  for (const Measured& kernel : kernels) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      // Both runs have the same inputs, which are exact in the narrow dtypes.
      const auto as = [&](const TensorList& all, at::ScalarType held, at::ScalarType given) {
        TensorList result;
        for (const at::Tensor& x : all) result.push_back(x.to(held).to(given).contiguous());
        return result;
      };
      const TensorList made =
          kernel.run(as(stream, at::kFloat, at::kFloat), as(products, dtype, dtype));
      const TensorList wanted =
          kernel.run(as(stream, at::kFloat, at::kDouble), as(products, dtype, at::kDouble));
      std::printf("%-22s %-8s", kernel.name.c_str(), c10::toString(dtype));
      for (size_t i = 0; i < made.size(); ++i) {
        const double error = RelativeErrorOf(made[i], wanted[i]);
        std::printf(" %.1e", error);
        EXPECT_LE(error, made[i].scalar_type() == at::kFloat ? kernel.fp32_bound : 2.5e-3)
            << kernel.name;
      }
      std::printf("\n");
    }
  }
}

}  // namespace
}  // namespace moonring::kernels
