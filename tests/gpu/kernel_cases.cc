#include "tests/gpu/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "attention/paged/paged_tasks.h"
#include "kernels/adamw.h"
#include "kernels/cross_entropy_rows.h"
#include "kernels/delta_pack.h"
#include "kernels/delta_scan.h"
#include "kernels/delta_scores.h"
#include "kernels/gated.h"
#include "kernels/paged_attention.h"
#include "kernels/philox.h"
#include "kernels/random/counter_random.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary.h"
#include "kernels/score_rows.h"
#include "kernels/short_convolution.h"
#include "kernels/softmax_merge.h"
#include "kernels/squared_norms.h"
#include "kernels/unpack.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::testing {
namespace {

using at::Tensor;
using kernels::BoundOf;
using Sizes = KernelSizes;

constexpr double kEps = 1e-5, kScale = 0.1;

Tensor Random(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  return at::randn(sizes, at::TensorOptions(device).dtype(at::kFloat)).to(dtype);
}

Tensor Wide(const Tensor& tensor) { return tensor.to(at::kDouble); }

double Bytes(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& each : tensors) bytes += static_cast<double>(each.nbytes());
  return bytes;
}

KernelResult In(at::ScalarType dtype, Tensor want) { return {std::move(want), BoundOf(dtype)}; }

// --- kernels of a block

struct Normed {
  Tensor x, added, weight, s64, r64;
};
Normed NormOf(const Sizes& sizes, at::Device device) {
  Normed n{Random({sizes.rows, sizes.width}, at::kFloat, device),
           Random({sizes.rows, sizes.width}, at::kBFloat16, device),
           Random({sizes.width}, at::kFloat, device)};
  n.s64 = Wide(n.x + n.added);  // in fp32: the kernel normalizes the stored sum
  n.r64 = (n.s64.square().mean(1, true) + kEps).rsqrt();
  return n;
}

PreparedKernel RmsNorm(const Sizes& sizes, at::Device device) {
  const Normed n = NormOf(sizes, device);
  const auto call = [n] {
    const auto made = kernels::RmsNorm(n.x, n.added, 1.0, n.weight, kEps, at::kBFloat16);
    return std::vector<Tensor>{made.y_TD, made.sum_TD};
  };
  return {call,
          {In(at::kBFloat16, n.s64 * n.r64 * Wide(n.weight)), In(at::kFloat, n.s64)},
          2 * Bytes({n.x, n.added}) + Bytes({n.weight})};
}

PreparedKernel RmsNormBackward(const Sizes& sizes, at::Device device) {
  const Normed n = NormOf(sizes, device);
  const Tensor dy = Random(n.x.sizes(), at::kBFloat16, device), s = n.s64.to(at::kFloat),
               dsum = Random(n.x.sizes(), at::kFloat, device), rstd = n.r64.to(at::kFloat);
  const auto call = [=] {
    const auto made = kernels::RmsNormBackward(
        dy, s, n.weight, rstd, dsum, 1.0, {.x = true, .added = true, .added_dtype = at::kBFloat16});
    return std::vector<Tensor>{made.x_TD, made.added_TD, made.weight_D};
  };
  const Tensor y64 = n.s64 * n.r64, g64 = Wide(dy) * Wide(n.weight),
               ds64 = n.r64 * (g64 - y64 * (g64 * y64).mean(1, true)) + Wide(dsum);
  return {call,
          {In(at::kFloat, ds64), In(at::kBFloat16, ds64), In(at::kFloat, (Wide(dy) * y64).sum(0))},
          2 * Bytes({dy, s}) + Bytes({dsum})};
}

// Rotates the two halves of each head against each other.
Tensor Turned(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto halves = Wide(x).chunk(2, 2);
  return at::cat({halves[0] * Wide(cos) - halves[1] * Wide(sin),
                  halves[1] * Wide(cos) + halves[0] * Wide(sin)},
                 2);
}

PreparedKernel Rotary(const Sizes& sizes, at::Device device) {
  const int64_t head_dim = sizes.width / sizes.heads;
  const Tensor q = Random({sizes.rows, sizes.heads, head_dim}, at::kBFloat16, device),
               k = Random({sizes.rows, sizes.kv_heads, head_dim}, at::kBFloat16, device),
               angles = Random({sizes.rows, 1, head_dim / 2}, at::kFloat, device) * 10,
               cos = angles.cos(), sin = angles.sin();
  const auto call = [=] {
    const auto made = kernels::Rotate(q, k, cos, sin, /*interleaved=*/false, /*back=*/false);
    return std::vector<Tensor>{made.q_THD, made.k_TKD};
  };
  return {call,
          {In(at::kBFloat16, Turned(q, cos, sin)), In(at::kBFloat16, Turned(k, cos, sin))},
          2 * Bytes({q, k}) + Bytes({cos, sin})};
}

PreparedKernel Gated(const Sizes& sizes, at::Device device) {
  const Tensor gate = Random({sizes.rows, sizes.width}, at::kBFloat16, device),
               up = Random({sizes.rows, sizes.width}, at::kBFloat16, device);
  const auto call = [=] {
    return std::vector<Tensor>{kernels::Gated(gate, up, kernels::Gate::kSilu)};
  };
  return {call, {In(at::kBFloat16, at::silu(Wide(gate)) * Wide(up))}, 3 * Bytes({gate})};
}

PreparedKernel GatedBackward(const Sizes& sizes, at::Device device) {
  const Tensor gate = Random({sizes.rows, sizes.width}, at::kBFloat16, device),
               up = Random({sizes.rows, sizes.width}, at::kBFloat16, device),
               dp = Random({sizes.rows, sizes.width}, at::kBFloat16, device);
  const Tensor dup64 = Wide(dp) * at::silu(Wide(gate)),
               dgate64 = at::silu_backward(Wide(dp) * Wide(up), Wide(gate));
  const auto call = [=] {
    const Tensor dup = kernels::GatedBackward(dp, gate, up, kernels::Gate::kSilu);
    return std::vector<Tensor>{dup, dp};
  };
  return {call, {In(at::kBFloat16, dup64), In(at::kBFloat16, dgate64)}, 5 * Bytes({gate})};
}

// --- random numbers

constexpr uint64_t kKey = 0xFEDCBA9876543210u;
constexpr double kRate = 0.1;

PreparedKernel Uniform(const Sizes& sizes, at::Device device) {
  const Tensor identity = at::arange(sizes.rows, at::kLong), there = identity.to(device);
  const auto call = [=] {
    return std::vector<Tensor>{kernels::CounterUniform(kKey, there, sizes.width)};
  };
  const Tensor want = kernels::CounterUniform(kKey, identity, sizes.width);  // bit-identical
  return {call, {{Wide(want), std::numeric_limits<double>::min()}}, Bytes({want})};
}

PreparedKernel Dropout(const Sizes& sizes, at::Device device) {
  const Tensor identity = at::arange(sizes.rows, at::kLong), there = identity.to(device),
               x = Random({sizes.rows, sizes.width}, at::kBFloat16, device);
  const auto call = [=] { return std::vector<Tensor>{kernels::Dropout(x, kKey, there, kRate)}; };
  const Tensor kept = kernels::CounterUniform(kKey, identity, sizes.width).ge(kRate).to(device);
  return {call, {In(at::kBFloat16, Wide(x) * Wide(kept) / (1 - kRate))}, 2 * Bytes({x})};
}

// --- kernels of losses

struct Scored {
  Tensor scores, targets, z64, logsumexp64;
};
Scored ScoresOf(const Sizes& sizes, at::Device device) {
  const int64_t rows = std::max<int64_t>(1, sizes.rows / 8);  // a chunk of rows has fewer
  Scored s{Random({rows, sizes.vocabulary}, at::kBFloat16, device),
           at::randint(0, sizes.vocabulary, {rows}, at::kLong).to(device)};
  s.z64 = Wide(s.scores);
  s.logsumexp64 = s.z64.logsumexp(1);
  return s;
}

PreparedKernel CrossEntropyRows(const Sizes& sizes, at::Device device) {
  const Scored s = ScoresOf(sizes, device);
  const auto empty = [&] {
    return at::empty({s.scores.size(0)}, s.scores.options().dtype(at::kFloat));
  };
  const kernels::TargetRows rows{empty(), empty(), empty(), Tensor()};
  const auto call = [=] {
    kernels::CrossEntropyRows(s.scores, /*softcap=*/0, s.targets, rows);
    return std::vector<Tensor>{rows.picked_R, rows.logsumexp_R, rows.mean_R};
  };
  // The positive and negative terms of the mean cancel, so its error is the rounding of the sum,
  // relative to rows with values of about 1.
  return {call,
          {In(at::kFloat, s.z64.gather(1, s.targets.unsqueeze(1)).squeeze(1)),
           In(at::kFloat, s.logsumexp64),
           {s.z64.mean(1), 1e-4}},
          Bytes({s.scores})};
}

PreparedKernel CrossEntropyRowsBackward(const Sizes& sizes, at::Device device) {
  const Scored s = ScoresOf(sizes, device);
  const Tensor logsumexp = s.logsumexp64.to(at::kFloat);
  const auto call = [=] {
    kernels::CrossEntropyRowsBackward(s.scores, /*softcap=*/0, /*smoothing=*/0, s.targets,
                                      logsumexp);
    return std::vector<Tensor>{s.scores};
  };
  Tensor want = (s.z64 - s.logsumexp64.unsqueeze(1)).exp_();
  want.scatter_add_(1, s.targets.unsqueeze(1), at::full({want.size(0), 1}, -1.0, want.options()));
  return {call, {In(at::kBFloat16, want)}, 2 * Bytes({s.scores})};
}

// --- kernels of attention

struct Merging {
  Tensor out, lse;
  kernels::SoftmaxSums sums;
};
Merging PartsOf(const Sizes& sizes, at::Device device) {
  const int64_t head_dim = sizes.width / sizes.heads;
  const Tensor heads = Random({sizes.rows, sizes.heads}, at::kFloat, device);
  return {
      Random({sizes.rows, sizes.heads, head_dim}, at::kBFloat16, device),
      Random({sizes.rows, sizes.heads}, at::kFloat, device),
      {heads, heads.abs() + 1, Random({sizes.rows, sizes.heads, head_dim}, at::kFloat, device)}};
}

PreparedKernel SoftmaxMerge(const Sizes& sizes, at::Device device) {
  const Merging m = PartsOf(sizes, device);
  const Tensor max64 = at::maximum(Wide(m.sums.max_TH), Wide(m.lse)),
               of_sums = (Wide(m.sums.max_TH) - max64).exp(), of_part = (Wide(m.lse) - max64).exp();
  const std::vector<KernelResult> results = {
      In(at::kFloat,
         Wide(m.sums.weighted_THD) * of_sums.unsqueeze(2) + Wide(m.out) * of_part.unsqueeze(2)),
      In(at::kFloat, max64), In(at::kFloat, Wide(m.sums.sum_TH) * of_sums + of_part)};
  const auto call = [m] {
    kernels::SoftmaxMerge(m.out, m.lse, Tensor(), m.sums);
    return std::vector<Tensor>{m.sums.weighted_THD, m.sums.max_TH, m.sums.sum_TH};
  };
  return {call, results,
          Bytes({m.out, m.lse}) + 2 * Bytes({m.sums.weighted_THD, m.sums.max_TH, m.sums.sum_TH})};
}

PreparedKernel SoftmaxFinish(const Sizes& sizes, at::Device device) {
  const Merging m = PartsOf(sizes, device);
  const std::vector<KernelResult> results = {
      In(at::kFloat, Wide(m.sums.weighted_THD) / Wide(m.sums.sum_TH).unsqueeze(2)),
      In(at::kFloat, Wide(m.sums.max_TH) + Wide(m.sums.sum_TH).log())};
  const auto call = [m] {
    kernels::SoftmaxFinish(m.sums);
    return std::vector<Tensor>{m.sums.weighted_THD, m.sums.max_TH};
  };
  return {call, results, 2 * Bytes({m.sums.weighted_THD, m.sums.max_TH}) + Bytes({m.sums.sum_TH})};
}

// The scores of the last queries of a causal document with all its keys, with a softcap.
struct Scoring {
  Tensor x, y, seen, hidden, p, ds, sum, lse;
  kernels::ScoreCurve curve{.scale = 0.5, .softcap = 4.0};
  Tensor bent64, shares64, lse64;
};
Scoring ScoringOf(const Sizes& sizes, at::Device device) {
  const int64_t keys = sizes.rows, queries = std::min<int64_t>(keys, 256), shift = keys - queries,
                far = int64_t{1} << 40;
  const std::vector<int64_t> of = {1, sizes.heads, queries, keys};
  const auto scores = [&] { return kernels::ScoreMemory(of, at::TensorOptions(device)); };
  const auto one_a_row = [&] {
    return at::empty({1, sizes.heads, queries}, at::TensorOptions(device).dtype(at::kFloat));
  };
  const auto narrow = [&] { return kernels::NarrowOver(scores(), at::kBFloat16); };
  const Tensor hidden =
      at::ones({queries, keys}, at::TensorOptions(device).dtype(at::kBool)).triu(shift + 1);
  Scoring s{scores().normal_(),
            scores().normal_(),
            at::tensor({queries, keys, -far, shift}, at::kLong).view({1, 4}).to(device),
            hidden,
            narrow(),
            narrow(),
            one_a_row(),
            one_a_row()};
  s.bent64 = (Wide(s.x) * (s.curve.scale / s.curve.softcap)).tanh();
  const Tensor z = (s.bent64 * s.curve.softcap).masked_fill(hidden, -INFINITY);
  s.lse64 = z.logsumexp({3});
  s.shares64 = (z - s.lse64.unsqueeze(3)).exp();
  return s;
}

PreparedKernel ScoreRows(const Sizes& sizes, at::Device device) {
  const Scoring s = ScoringOf(sizes, device);
  const auto call = [s] {
    kernels::ScoreRows(s.x, s.seen, s.curve, s.p, {s.sum, s.lse});
    return std::vector<Tensor>{s.p, s.lse};
  };
  const Tensor e64 = s.shares64 / s.shares64.amax({3}, true);
  return {call, {In(at::kBFloat16, e64), In(at::kFloat, s.lse64)}, Bytes({s.x, s.p})};
}

PreparedKernel ScoreRowsBackward(const Sizes& sizes, at::Device device) {
  const Scoring s = ScoringOf(sizes, device);
  const Tensor lse = s.lse64.to(at::kFloat), delta = (s.shares64 * Wide(s.y)).sum(3).to(at::kFloat);
  const auto call = [=] {
    kernels::ScoreRowsBackward(s.x, s.y, lse, delta, s.seen, s.curve, {s.p, s.ds});
    return std::vector<Tensor>{s.p, s.ds};
  };
  const Tensor ds64 = s.shares64 * (Wide(s.y) - Wide(delta).unsqueeze(3)) * (1 - s.bent64.square());
  return {
      call, {In(at::kBFloat16, s.shares64), In(at::kBFloat16, ds64)}, Bytes({s.x, s.y, s.p, s.ds})};
}

// --- bounds

// Bounds for sums of hundreds of terms in fp32, and for two consecutive TF32 products.
constexpr double kSums = 2e-6, kTf32Sums = 1e-3;

// Paged attention with one new row for each sequence. A sequence is four times as long as the
// number of rows of hidden states, and its blocks are in random order.
PreparedKernel Decode(const Sizes& sizes, at::Device device, int64_t sequences) {
  const int64_t tokens = 4 * sizes.rows, head_dim = sizes.width / sizes.heads,
                queries = sizes.heads / sizes.kv_heads,
                each = (tokens + attention::kKeyBlock - 1) / attention::kKeyBlock;
  const auto random = [&](at::IntArrayRef of) { return Random(of, at::kBFloat16, device); };
  const Tensor order = at::randperm(sequences * each, at::kLong).view({sequences, each}),
               there = order.to(device), q = random({sequences, sizes.heads, head_dim}),
               keys = random({order.numel(), sizes.kv_heads, head_dim, attention::kKeyBlock}),
               values = random({order.numel(), sizes.kv_heads, attention::kKeyBlock, head_dim});
  std::vector<std::vector<attention::KeyBlock>> blocks(sequences);
  std::vector<attention::PagedRun> runs;
  std::vector<int64_t> rows;
  std::vector<Tensor> out64, lse64;
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t b = 0; b < each; ++b) {
      const int64_t first = b * attention::kKeyBlock;
      blocks[s].push_back(
          {order[s][b].item<int64_t>(), first, std::min(attention::kKeyBlock, tokens - first)});
    }
    runs.push_back({1, tokens - 1, blocks[s]});
    rows.push_back(s);
    const Tensor k = Wide(keys.index_select(0, there[s])).permute({1, 2, 0, 3}).flatten(2),
                 v = Wide(values.index_select(0, there[s])).transpose(0, 1).flatten(1, 2),
                 scores = at::matmul(Wide(q[s]).unflatten(0, {sizes.kv_heads, queries}),
                                     k.narrow(2, 0, tokens)) *
                          kScale;
    out64.push_back(at::matmul(scores.softmax(2), v.narrow(1, 0, tokens)).flatten(0, 1));
    lse64.push_back(scores.logsumexp({2}).flatten());
  }
  const kernels::PagedTable table =
      kernels::TableOf(attention::PagedTasks(runs, queries, /*window=*/0), rows);
  const kernels::PagedAttentionTensors given{
      q,
      keys,
      values,
      at::tensor(table.words, at::kInt).to(device),
      at::empty(q.sizes(), q.options().dtype(at::kFloat)),
      at::empty({sequences, sizes.heads}, q.options().dtype(at::kFloat))};
  const auto call = [given, table] {
    kernels::PagedAttention(given, table, kScale, /*softcap=*/0);
    return std::vector<Tensor>{given.out_THD, given.lse_TH};
  };
  return {call,
          {{at::stack(out64), kSums}, {at::stack(lse64), kSums}},
          Bytes({keys, values, q, given.out_THD})};
}

PreparedKernel PagedAttention(const Sizes& sizes, at::Device device) {
  return Decode(sizes, device, 8);
}
PreparedKernel PagedAttentionOfOne(const Sizes& sizes, at::Device device) {
  return Decode(sizes, device, 1);
}

// --- kernels of linear attention

// One document, with attention's number of heads.
PreparedKernel DeltaScanIn(const Sizes& sizes, at::Device device, bool tf32) {
  const int64_t chunks = (sizes.rows + 63) / 64, heads = sizes.heads,
                head_dim = sizes.width / sizes.heads;
  const auto random = [&](at::IntArrayRef of) { return Random(of, at::kFloat, device); };
  const kernels::DeltaScanTensors given{
      .a_NHCK = random({chunks, heads, 64, head_dim}) * 0.02,
      .b_NHCK = random({chunks, heads, 64, head_dim}) * 0.02,
      .written_NHCV = random({chunks, heads, 64, head_dim}),
      .added_NHVK = {},
      .decay_NH1X = random({chunks, heads, 1, 1}).sigmoid(),
      .state_DHVK = random({1, heads, head_dim, head_dim}),
      .states_NHVK = random({chunks, heads, head_dim, head_dim}),
      .round_begin = at::arange(chunks + 1, at::kLong).to(device)};
  Tensor m = Wide(given.state_DHVK[0]);
  std::vector<Tensor> written, states;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    states.push_back(m);
    written.push_back(Wide(given.written_NHCV[chunk]) -
                      at::matmul(Wide(given.a_NHCK[chunk]), m.mT()));
    m = m * Wide(given.decay_NH1X[chunk]) +
        at::matmul(written.back().mT(), Wide(given.b_NHCK[chunk]));
  }
  const auto call = [given, tf32] {
    kernels::DeltaScan(given, /*backward=*/false, tf32);
    return std::vector<Tensor>{given.written_NHCV, given.states_NHVK, given.state_DHVK};
  };
  const double bound = tf32 ? kTf32Sums : kSums;
  return {call,
          {{at::stack(written), bound}, {at::stack(states), bound}, {m.unsqueeze(0), bound}},
          Bytes({given.a_NHCK, given.b_NHCK, given.states_NHVK}) +
              2 * Bytes({given.written_NHCV, given.state_DHVK})};
}
PreparedKernel DeltaScan(const Sizes& sizes, at::Device device) {
  return DeltaScanIn(sizes, device, /*tf32=*/false);
}
PreparedKernel DeltaScanInTf32(const Sizes& sizes, at::Device device) {
  return DeltaScanIn(sizes, device, /*tf32=*/true);
}

// Converts one document to chunks of 64 tokens, in fp64. The last chunk is padded with zeros.
Tensor InChunks(const Tensor& rows) {
  const int64_t chunks = (rows.size(0) + 63) / 64;
  return at::constant_pad_nd(Wide(rows), {0, 0, 0, 0, 0, chunks * 64 - rows.size(0)})
      .unflatten(0, {chunks, 64})
      .transpose(1, 2)
      .contiguous();
}

Tensor TokensOfSlots(const Sizes& sizes, at::Device device) {
  const Tensor tokens = at::arange((sizes.rows + 63) / 64 * 64, at::kLong);
  return at::where(tokens < sizes.rows, tokens, -1).to(device);
}

// Divides each row by its norm.
Tensor Unit(const Tensor& x) { return Wide(x) * (Wide(x).square().sum(-1, true) + kEps).rsqrt(); }

PreparedKernel DeltaPack(const Sizes& sizes, at::Device device) {
  const int64_t head_dim = sizes.width / sizes.heads;
  const kernels::DeltaRows rows{
      Random({sizes.rows, sizes.kv_heads, head_dim}, at::kBFloat16, device),
      Random({sizes.rows, sizes.kv_heads, head_dim}, at::kBFloat16, device),
      Random({sizes.rows, sizes.heads, head_dim}, at::kBFloat16, device),
      Random({sizes.rows, sizes.heads}, at::kFloat, device).abs() * -0.1,
      Random({sizes.rows, sizes.heads}, at::kFloat, device).sigmoid()};
  const Tensor slots = TokensOfSlots(sizes, device);
  const auto call = [=] {
    const kernels::PackedDelta p =
        kernels::DeltaPack(rows, slots, {.scale = kScale, .normalize = true, .eps = kEps});
    return std::vector<Tensor>{p.q, p.start_q, p.k, p.start_k, p.end_k, p.v, p.to_end};
  };
  const auto keys = [&](const Tensor& x) {
    return InChunks(Unit(x).repeat_interleave(sizes.heads / sizes.kv_heads, 1));
  };
  const Tensor g = InChunks(rows.g_TH.unsqueeze(2)), sums = g.cumsum(2), from_start = sums.exp(),
               to_end = (g.sum(2, true) - sums).exp(), q = keys(rows.q_THK) * kScale,
               k = keys(rows.k_THK), v = InChunks(rows.v_THV);
  std::vector<KernelResult> results;
  for (const Tensor& want : {q, q * from_start, k, k * from_start, k * to_end, v, to_end})
    results.push_back({want, kSums});
  return {call, results,
          Bytes({rows.q_THK, rows.k_THK, rows.v_THV, rows.g_TH, rows.beta_TH}) +
              4 * static_cast<double>(5 * q.numel() + v.numel() + 4 * g.numel())};
}

PreparedKernel DeltaPackRows(const Sizes& sizes, at::Device device) {
  const Tensor rows = Random({sizes.rows, sizes.heads, sizes.width / sizes.heads}, at::kBFloat16,
                             device),
               slots = TokensOfSlots(sizes, device), want = InChunks(rows);
  const auto call = [=] { return std::vector<Tensor>{kernels::DeltaPackRows(rows, slots)}; };
  return {call, {In(at::kFloat, want)}, Bytes({rows}) + Bytes({want}) / 2};
}

PreparedKernel DeltaUnpack(const Sizes& sizes, at::Device device) {
  const int64_t head_dim = sizes.width / sizes.heads, groups = sizes.heads / sizes.kv_heads,
                chunks = (sizes.rows + 63) / 64;
  const Tensor x = Random({sizes.rows, sizes.kv_heads, head_dim}, at::kBFloat16, device),
               d = Random({chunks, sizes.heads, 64, head_dim}, at::kFloat, device),
               slots = TokensOfSlots(sizes, device), rows = at::empty_like(x);
  const auto call = [=] {
    kernels::DeltaUnpack(d, slots, x, kScale, kEps, rows);
    return std::vector<Tensor>{rows};
  };
  const Tensor d64 = Wide(d)
                         .transpose(1, 2)
                         .flatten(0, 1)
                         .narrow(0, 0, sizes.rows)
                         .unflatten(1, {sizes.kv_heads, groups})
                         .sum(2) *
                     kScale,
               unit = Unit(x), inverse = (Wide(x).square().sum(-1, true) + kEps).rsqrt();
  return {call,
          {In(at::kBFloat16, (d64 - unit * (d64 * unit).sum(-1, true)) * inverse)},
          Bytes({d}) + 2 * Bytes({x})};
}

struct Scored64 {
  Tensor query, key, g, beta;      // for products and columns
  Tensor decay64, query64, key64;  // for scores
};
Scored64 ChunkScores(const Sizes& sizes, at::Device device) {
  const int64_t chunks = (sizes.rows + 63) / 64;
  const auto random = [&](int64_t columns) {
    return Random({chunks, sizes.heads, 64, columns}, at::kFloat, device);
  };
  const Tensor k = random(16), unit = k / k.norm(2, -1, true);
  Scored64 s{at::matmul(random(16), unit.mT()), at::matmul(unit, unit.mT()), random(1).abs() * -0.1,
             random(1).sigmoid()};
  const Tensor sums = Wide(s.g).cumsum(2);
  s.decay64 = (sums - sums.mT()).tril().exp().tril();
  s.query64 = Wide(s.query) * s.decay64;
  s.key64 = (Wide(s.key) * s.decay64).tril(-1);
  return s;
}

PreparedKernel DeltaScores(const Sizes& sizes, at::Device device) {
  const Scored64 s = ChunkScores(sizes, device);
  const auto call = [s] {
    const kernels::DeltaInverse made = kernels::DeltaScores(s.query, s.key, s.g, s.beta);
    return std::vector<Tensor>{s.query, s.key, made.inverse_NHCC, made.scaled_NHCC};
  };
  const Tensor eye = at::eye(64, s.key64.options()),
               inverse = at::linalg_solve_triangular(s.key64 * Wide(s.beta) + eye, eye,
                                                     /*upper=*/false);
  return {call,
          {{s.query64, kSums},
           {s.key64, kSums},
           {inverse, kSums},
           {inverse * Wide(s.beta).mT(), kSums}},
          6 * Bytes({s.key})};
}

PreparedKernel DeltaScoresBackward(const Sizes& sizes, at::Device device) {
  const Scored64 s = ChunkScores(sizes, device);
  const Tensor query = s.query64.to(at::kFloat), key = s.key64.to(at::kFloat),
               p = Random(key.sizes(), at::kFloat, device),
               r = Random(key.sizes(), at::kFloat, device);
  const Tensor by_key = (-Wide(s.beta) * Wide(r)).tril(-1), to_key = by_key * s.decay64,
               d_pairs = Wide(p).tril() * Wide(query) + by_key * Wide(key),
               // Sums over all pairs i >= m > j: for each m, rows from m on and columns before m.
      from_rows = d_pairs.flip(2).cumsum(2).flip(2);
  const std::vector<KernelResult> results = {{Wide(p) * s.decay64, kSums},
                                             {to_key + to_key.mT(), kSums},
                                             {-(Wide(r) * Wide(key)).sum(-1, true), kSums},
                                             {from_rows.tril(-1).sum(-1, true), kSums}};
  const auto call = [=] {
    const auto made = kernels::DeltaScoresBackward(p, r, query, key, s.g, s.beta);
    return std::vector<Tensor>{p, r, made.beta_NHC1, made.g_NHC1};
  };
  return {call, results, 6 * Bytes({key})};
}

PreparedKernel DeltaGradients(const Sizes& sizes, at::Device device) {
  const int64_t head_dim = sizes.width / sizes.heads, chunks = (sizes.rows + 63) / 64;
  const auto rows = [&](int64_t of, int64_t columns) {
    return Random({chunks, sizes.heads, of, columns}, at::kFloat, device);
  };
  const auto row = [&] { return rows(64, head_dim); };
  const auto column = [&] { return rows(64, 1).sigmoid(); };
  const kernels::DeltaGradientRows in{.dq = row(),
                                      .dk = row(),
                                      .dr = row(),
                                      .d_start_q = row(),
                                      .d_start_k = row(),
                                      .d_end_k = row(),
                                      .q = row(),
                                      .k = row(),
                                      .unscaled = row(),
                                      .states = rows(head_dim, head_dim),
                                      .d_states = rows(head_dim, head_dim),
                                      .beta = column(),
                                      .from_start = column(),
                                      .to_end = column(),
                                      .dbeta = column(),
                                      .dg = column()};
  const Tensor from_start = Wide(in.from_start), start_q = Wide(in.d_start_q) * from_start,
               start_k = -Wide(in.beta) * from_start * Wide(in.d_start_k),
               end_k = Wide(in.d_end_k) * Wide(in.to_end),
               of_start = (start_q * Wide(in.q) + start_k * Wide(in.k)).sum(-1, true),
               of_end = (end_k * Wide(in.k)).sum(-1, true),
               whole = (Wide(in.states) * Wide(in.d_states)).sum({2, 3}, true) *
                       from_start.narrow(2, 63, 1);
  const std::vector<KernelResult> results = {
      {Wide(in.dq) + start_q, kSums},
      {Wide(in.dk) + start_k + end_k, kSums},
      {Wide(in.dr) * Wide(in.beta), kSums},
      {Wide(in.dbeta) + (Wide(in.dr) * Wide(in.unscaled)).sum(-1, true), kSums},
      {Wide(in.dg) + of_start.flip(2).cumsum(2).flip(2) + of_end.cumsum(2) - of_end + whole,
       kSums}};
  const auto call = [in] {
    kernels::DeltaGradients(in);
    return std::vector<Tensor>{in.dq, in.dk, in.dr, in.dbeta, in.dg};
  };
  return {call, results, 12 * Bytes({in.dq}) + 2 * Bytes({in.states})};
}

struct Convolved {
  kernels::ConvolutionTensors given;
  Tensor dy, y64, dx64, dweight64;
};
Convolved ConvolvedOf(const Sizes& sizes, at::Device device) {
  const Tensor x = Random({sizes.rows, sizes.width}, at::kBFloat16, device),
               weight = Random({sizes.width, 4}, at::kFloat, device),
               dy = Random(x.sizes(), at::kBFloat16, device),
               documents = at::tensor({int64_t{0}, int64_t{0}, sizes.rows, int64_t{0}}, at::kLong);
  // Row t + 3 - s of `before` is the row that is s positions before row t.
  const Tensor before =
      at::cat({at::zeros({3, sizes.width}, x.options().dtype(at::kDouble)), Wide(x)});
  const auto tap = [&](int64_t s) { return before.narrow(0, 3 - s, sizes.rows); };
  const auto of_tap = [&](int64_t s) { return Wide(weight.select(1, 3 - s)); };
  Tensor z = tap(0) * of_tap(0);
  for (int64_t s = 1; s < 4; ++s) z += tap(s) * of_tap(s);
  const Tensor dz = at::silu_backward(Wide(dy), z), dbefore = at::zeros_like(before);
  std::vector<Tensor> dweight(4);
  for (int64_t s = 0; s < 4; ++s) {
    dbefore.narrow(0, 3 - s, sizes.rows).add_(dz * of_tap(s));
    dweight[3 - s] = (dz * tap(s)).sum(0);
  }
  return {{x, weight, {}, {}, documents.view({2, 2}).to(device)},
          dy,
          at::silu(z),
          dbefore.narrow(0, 3, sizes.rows),
          at::stack(dweight, 1)};
}

PreparedKernel ShortConvolution(const Sizes& sizes, at::Device device) {
  const Convolved c = ConvolvedOf(sizes, device);
  const auto call = [c] {
    return std::vector<Tensor>{kernels::ShortConvolution(c.given, /*silu=*/true)};
  };
  return {call, {In(at::kBFloat16, c.y64)}, 2 * Bytes({c.given.x_TC}) + Bytes({c.given.weight_CW})};
}

PreparedKernel ShortConvolutionBackward(const Sizes& sizes, at::Device device) {
  const Convolved c = ConvolvedOf(sizes, device);
  const auto call = [c] {
    const auto made = kernels::ShortConvolutionBackward(c.dy, c.given, /*silu=*/true);
    return std::vector<Tensor>{made.x_TC, made.weight_CW};
  };
  return {call,
          {In(at::kBFloat16, c.dx64), {c.dweight64, kSums}},
          3 * Bytes({c.given.x_TC}) + 2 * Bytes({c.given.weight_CW})};
}

// --- kernels over all parameters

// Returns `count` numbers in tensors of different lengths.
std::vector<Tensor> Parameters(int64_t count, at::Device device) {
  std::vector<Tensor> tensors;
  for (int64_t left = count; left > 0; left -= tensors.back().numel())
    tensors.push_back(Random({std::min(left, std::max<int64_t>(7, left / 3))}, at::kFloat, device));
  return tensors;
}

double Bytes(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& each : tensors) bytes += static_cast<double>(each.nbytes());
  return bytes;
}

PreparedKernel AdamW(const Sizes& sizes, at::Device device) {
  constexpr kernels::AdamWFactors f{
      .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.98, .weight_decay = 0.1, .epsilon = 1e-8};
  kernels::AdamWTensors tensors{
      Parameters(sizes.parameters, device), Parameters(sizes.parameters, device),
      Parameters(sizes.parameters, device), Parameters(sizes.parameters, device)};
  std::vector<KernelResult> results;
  for (size_t i = 0; i < tensors.weights.size(); ++i) {
    tensors.squares[i].square_();
    tensors.steps.push_back(at::full({}, 3.0, tensors.weights[i].options()));
    const Tensor g = Wide(tensors.gradients[i]), w = Wide(tensors.weights[i]),
                 m = f.beta1 * Wide(tensors.means[i]) + (1 - f.beta1) * g,
                 v = f.beta2 * Wide(tensors.squares[i]) + (1 - f.beta2) * g * g;
    const double of_mean = 1 - std::pow(f.beta1, 3), of_square = 1 - std::pow(f.beta2, 3);
    results.push_back(
        In(at::kFloat, w * (1 - f.lr * f.weight_decay) -
                           f.lr / of_mean * m / (v.sqrt() / std::sqrt(of_square) + f.epsilon)));
  }
  const auto call = [tensors, f] {
    kernels::AdamW(tensors, f);
    return tensors.weights;
  };
  return {call, results, 7 * Bytes(tensors.weights)};
}

PreparedKernel SquaredNorms(const Sizes& sizes, at::Device device) {
  const std::vector<Tensor> tensors = Parameters(sizes.parameters, device);
  std::vector<Tensor> want;
  for (const Tensor& each : tensors) want.push_back(Wide(each).square().sum());
  const auto call = [tensors] { return std::vector<Tensor>{kernels::SquaredNorms(tensors)}; };
  return {call, {In(at::kDouble, at::stack(want))}, Bytes(tensors)};
}

// --- kernels of packed weights

Tensor Codes(int64_t count, at::ScalarType dtype, at::Device device) {
  return at::randint(dtype == at::kByte ? 0 : -127, dtype == at::kByte ? 256 : 128, {count},
                     at::TensorOptions(device).dtype(dtype));
}

// Four-bit codes that represent equidistant values; their scales are quantized in the same way.
PreparedKernel UnpackFourBits(const Sizes& sizes, at::Device device) {
  const int64_t count = sizes.rows * sizes.width, blocks = (count + 63) / 64;
  const Tensor out = at::empty({sizes.rows, sizes.width},
                               at::TensorOptions(device).dtype(at::kBFloat16)),
               codes = Codes((count + 1) / 2, at::kByte, device),
               scale_codes = Codes(blocks, at::kByte, device),
               scales = Random({(blocks + 255) / 256}, at::kFloat, device).abs(),
               mean = Random({1}, at::kFloat, device).abs();
  std::vector<float> steps(16), scale_steps(256);
  for (int i = 0; i < 16; ++i) steps[i] = static_cast<float>(i - 8) / 8;
  for (int i = 0; i < 256; ++i) scale_steps[i] = static_cast<float>(i) / 256;
  const std::vector<Tensor> parts = {codes, scale_codes, scales, mean};
  const auto call = [=] {
    kernels::UnpackFourBits(out, parts, steps, scale_steps);
    return std::vector<Tensor>{out};
  };
  const Tensor wide = codes.to(at::kShort),
               each = at::stack({wide.floor_divide(16), wide.remainder(16)}, 1).view({-1}),
               scale = Wide(scale_codes) / 256 *
                           Wide(scales).repeat_interleave(256).narrow(0, 0, blocks) +
                       Wide(mean),
               want = (Wide(each.narrow(0, 0, count)) - 8) / 8 *
                      scale.repeat_interleave(64).narrow(0, 0, count);
  return {call,
          {In(at::kBFloat16, want.view(out.sizes()))},
          Bytes({out, codes, scale_codes, scales, mean})};
}

PreparedKernel UnpackEightBits(const Sizes& sizes, at::Device device) {
  const Tensor out = at::empty({sizes.rows, sizes.width},
                               at::TensorOptions(device).dtype(at::kBFloat16)),
               codes = Codes(out.numel(), at::kChar, device),
               scales = Random({sizes.rows}, at::kFloat, device).abs();
  const auto call = [=] {
    kernels::UnpackEightBits(out, codes, scales);
    return std::vector<Tensor>{out};
  };
  const Tensor want = Wide(codes).view(out.sizes()) * Wide(scales).unsqueeze(1) / 127;
  return {call, {In(at::kBFloat16, want)}, Bytes({out, codes, scales})};
}

}  // namespace

std::vector<KernelCase> KernelCases() {
  return {{"moonring::rms_norm", RmsNorm},
          {"moonring::rms_norm_backward", RmsNormBackward},
          {"moonring::rotary", Rotary},
          {"moonring::gated", Gated},
          {"moonring::gated_backward_", GatedBackward},
          {"moonring::counter_uniform", Uniform},
          {"moonring::dropout_", Dropout},
          {"moonring::cross_entropy_rows", CrossEntropyRows},
          {"moonring::cross_entropy_rows_backward", CrossEntropyRowsBackward},
          {"moonring::softmax_merge", SoftmaxMerge},
          {"moonring::softmax_finish", SoftmaxFinish},
          {"moonring::paged_attention", PagedAttention, " of 8 sequences"},
          {"moonring::paged_attention", PagedAttentionOfOne, " of one sequence"},
          {"moonring::score_rows", ScoreRows},
          {"moonring::score_rows_backward", ScoreRowsBackward},
          {"moonring::delta_pack", DeltaPack},
          {"moonring::delta_pack_rows", DeltaPackRows},
          {"moonring::delta_unpack", DeltaUnpack},
          {"moonring::delta_scores", DeltaScores},
          {"moonring::delta_scores_backward", DeltaScoresBackward},
          {"moonring::delta_gradients", DeltaGradients},
          {"moonring::delta_scan", DeltaScan},
          {"moonring::delta_scan", DeltaScanInTf32, " in TF32"},
          {"moonring::short_convolution", ShortConvolution},
          {"moonring::short_convolution_backward", ShortConvolutionBackward},
          {"moonring::adamw", AdamW},
          {"moonring::squared_norms", SquaredNorms},
          {"moonring::unpack_four_bits_", UnpackFourBits},
          {"moonring::unpack_eight_bits_", UnpackEightBits}};
}

double WorstError(const std::vector<Tensor>& got, const std::vector<KernelResult>& results) {
  TORCH_CHECK(got.size() == results.size(), got.size(), " results, expected ", results.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = RelativeErrorOf(got[i].cpu(), results[i].want.cpu()) / results[i].bound;
    if (!(error <= worst)) worst = error;  // `not <=`, so that NaN counts
  }
  return worst;
}

std::vector<std::string> KernelsFor(at::Device device) {
  const c10::DispatchKey key = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  std::vector<std::string> names;
  for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames()) {
    if (each.name.rfind("moonring::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findOp(each);
    if (op.has_value() && op->hasKernelForDispatchKey(key)) names.push_back(each.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace moonring::testing
