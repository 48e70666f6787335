// Linear attention as a block's mixer: a gated delta rule after a short convolution (Yang et al.,
// arXiv:2412.06464). Used by Qwen3-Next, Qwen3.5 and OLMo hybrid; and, with one decay per channel,
// by Kimi Linear (arXiv:2510.26692). With n = norm_a(x), H value heads of d_v features, Hk key
// heads of d_k features that the value heads share, and one decay g and one update weight beta per
// value head:
//
//   [q | k | v] = silu(convolution([Wq n | Wk n | Wv n]))       causal, depthwise
//   g    = -exp(A) softplus(Wa n + c)                           A, c [H]: the decay's logarithm
//   beta = s sigmoid(Wb n)                                      s 1, or 2 (negative eigenvalues)
//   o    = delta rule(q / |q|, k / |k|, v, g, beta) / sqrt(d_k)
//   heads = RmsNorm(o; w) silu(Wz n)                            head by head; w, never 1 + w
//
// With one decay per channel, Wa n + c and g have a value for each channel of each head's key, [T,
// H, d_k]; A stays one per head. In that variant Wa and Wz may be low-rank products of two maps,
// and sigmoid may replace silu.
//
// The weights that are present decide which of Wq, Wk, Wv, Wz, Wa, Wb, and which convolution taps,
// are fused in one matrix. The fused matrix of queries, keys, values and gates has, for each key
// head in turn, the rows of the head's query, its key, the values of the value heads that share it,
// and their gates. The fused matrix of Wb and Wa has, for each key head in turn, the rows of its
// value heads' Wb, then of their Wa.
//
// g, beta, the norm and the delta rule are computed in fp32, or in fp64 if matmuls are in fp64
// (mixers/rule/delta_inputs.h). BlockRows::mixing communicates with the other ranks if a
// sequence is split over ranks.

#include <cmath>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

#include "absl/strings/str_cat.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rows.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/gated_norm.h"
#include "model/blocks/input_maps.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/config/config.h"
#include "model/mixers/mixers.h"

namespace moonring::model {
namespace {

// Outputs of the linear maps at the mixer's input: the channels for the convolution, the gate, and
// the values from which beta and the decay are computed.
struct Entrance {
  at::Tensor mixed_TC, gate_TV, beta_TH, decay;
};

Entrance Grouped(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD) {
  const DeltaRule& delta = rule.delta;
  const int64_t rows = hidden_TD.size(0), shared = delta.value_heads / delta.key_heads,
                values = shared * delta.value_dim;
  const std::vector<at::Tensor> made =
      ProjectInput(rule, maps, hidden_TD, {kDeltaQueryKeyValueGate, kDeltaBetaDecay});
  // Uses split instead of several slices, because the backward of split allocates only one tensor.
  const auto split = [&](const at::Tensor& result, std::vector<int64_t> widths) {
    int64_t width = 0;
    for (const int64_t each : widths) width += each;
    std::vector<at::Tensor> parts =
        result.view({rows, delta.key_heads, width}).split_with_sizes(widths, 2);
    for (at::Tensor& part : parts) part = part.flatten(1);
    return parts;
  };
  const std::vector<at::Tensor> wide =
      split(made[0], {delta.key_dim, delta.key_dim, values, values});
  const std::vector<at::Tensor> narrow = split(made[1], {shared, shared});
  return {at::cat({wide[0], wide[1], wide[2]}, 1), wide[3], narrow[0], narrow[1]};
}

Entrance Enter(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD) {
  if (maps.Has(kDeltaQueryKeyValueGate)) return Grouped(rule, maps, hidden_TD);
  if (maps.Has(kDeltaQueryKeyValue)) {
    std::vector<at::Tensor> made = ProjectInput(
        rule, maps, hidden_TD, {kDeltaQueryKeyValue, kDeltaGate, kDeltaBeta, kDeltaDecay});
    return {std::move(made[0]), std::move(made[1]), std::move(made[2]), std::move(made[3])};
  }
  const auto first = [&](int whole, int down) { return maps.Has(down) ? down : whole; };
  std::vector<at::Tensor> made =
      ProjectInput(rule, maps, hidden_TD,
                   {kDeltaQuery, kDeltaKey, kDeltaValue, first(kDeltaGate, kDeltaGateDown),
                    kDeltaBeta, first(kDeltaDecay, kDeltaDecayDown)});
  const auto second = [&](at::Tensor few, int up) {
    return maps.Has(up) ? Project(maps.Map(up), few) : few;
  };
  return {at::cat({made[0], made[1], made[2]}, 1), second(std::move(made[3]), kDeltaGateUp),
          std::move(made[4]), second(std::move(made[5]), kDeltaDecayUp)};
}

at::Tensor Taps(const BlockMaps& maps) {
  const auto of = [&](int place) { return maps.Map(place).weight_OI; };
  return maps.Has(kDeltaFilter)
             ? of(kDeltaFilter)
             : at::cat({of(kDeltaQueryFilter), of(kDeltaKeyFilter), of(kDeltaValueFilter)}, 0);
}

// The decay's logarithm g: [T, H], or [T, H, d_k] with one decay per channel.
at::Tensor DecayLog(const DeltaRule& delta, const BlockMaps& maps, const at::Tensor& decay) {
  const at::Tensor rate_H = -at::exp(maps.Norm(kDeltaDecayLog)).view({delta.value_heads});
  const at::Tensor step = at::softplus(decay + maps.Norm(kDeltaDecayShift));
  if (!delta.by_channel) return rate_H * step;
  return rate_H.unsqueeze(1) * step.view({-1, delta.value_heads, delta.key_dim});
}

MixerOutput RunDelta(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                     const BlockRows& rows, attention::PlannedAttention&,
                     attention::KeptAttention*) {
  const DeltaRule& delta = rule.delta;
  const at::ScalarType wide = WideDtype(rule.matmul_dtype);
  Entrance entrance = Enter(rule, maps, hidden_TD);
  const at::Tensor out_THV = rows.mixing->Delta(
      {.x_TC = std::move(entrance.mixed_TC),
       .taps_CW = Taps(maps).select(1, 0),
       .g = DecayLog(delta, maps, entrance.decay.to(wide)),
       .beta_TH = at::sigmoid(entrance.beta_TH.to(wide)) * delta.beta_scale,
       .key_heads = delta.key_heads,
       .value_heads = delta.value_heads,
       .key_dim = delta.key_dim,
       .value_dim = delta.value_dim,
       .options = {.scale = 1.0 / std::sqrt(static_cast<double>(delta.key_dim)), .normalize = true},
       .layer = rule.scores.layer});
  return {GatedRmsNorm(out_THV.reshape({-1, delta.value_dim}),
                       entrance.gate_TV.reshape({-1, delta.value_dim}), maps.Norm(kDeltaNorm),
                       delta.norm_eps, delta.gate)
              .view({hidden_TD.size(0), delta.values()}),
          {}};
}

std::vector<int64_t> ShapeOfDelta(const ModelConfig& config, const LayerRule&, int place) {
  const DeltaRule& delta = config.delta;
  const int64_t d = config.hidden_size, keys = delta.keys(), values = delta.values();
  switch (place) {
    case kDeltaQueryKeyValueGate:
      return {2 * keys + 2 * values, d};
    case kDeltaQueryKeyValue:
      return {2 * keys + values, d};
    case kDeltaQuery:
    case kDeltaKey:
      return {keys, d};
    case kDeltaValue:
    case kDeltaGate:
      return {values, d};
    case kDeltaBetaDecay:
      return {2 * delta.value_heads, d};
    case kDeltaBeta:
      return {delta.value_heads, d};
    case kDeltaDecay:
      return {delta.decays(), d};
    case kDeltaFilter:
      return {2 * keys + values, 1, delta.taps};
    case kDeltaQueryFilter:
    case kDeltaKeyFilter:
      return {keys, 1, delta.taps};
    case kDeltaValueFilter:
      return {values, 1, delta.taps};
    case kDeltaDecayDown:
    case kDeltaGateDown:
      return {delta.rank, d};
    case kDeltaDecayUp:
      return {delta.decays(), delta.rank};
    case kDeltaGateUp:
      return {values, delta.rank};
    case kDeltaDecayLog:  // the shape that the files have
      return delta.by_channel ? std::vector<int64_t>{1, 1, delta.value_heads, 1}
                              : std::vector<int64_t>{delta.value_heads};
    case kDeltaDecayShift:
      return {delta.decays()};
    case kDeltaNorm:
      return {delta.value_dim};
    case kDeltaOutput:
      return {d, values};
    default:
      return {};
  }
}

std::vector<MixerSize> SizesOfDelta(const ModelConfig& config) {
  const DeltaRule& delta = config.delta;
  return {{"key_heads", "linear_num_key_heads", delta.key_heads},
          {"value_heads", "linear_num_value_heads", delta.value_heads},
          {"key_dim", "linear_key_head_dim", delta.key_dim},
          {"value_dim", "linear_value_head_dim", delta.value_dim},
          {"delta_taps", "linear_conv_kernel_dim", delta.taps},
          {"", "the delta rule's beta", delta.beta_scale},
          {"", "the eps of the delta rule's norm", delta.norm_eps},
          {"decay_by_channel", "whether there is a decay for each channel", delta.by_channel},
          {"", "the rank of decay and gate", delta.rank},
          {"", "whether the gate is a sigmoid", delta.gate == NormGate::kSigmoid}};
}

MixerWork WorkOfDelta(const ModelConfig& config) {
  const DeltaRule& delta = config.delta;
  return {.key_heads = delta.key_heads,
          .value_heads = delta.value_heads,
          .key_dim = delta.key_dim,
          .value_dim = delta.value_dim,
          .channels = 2 * delta.keys() + delta.values(),
          .taps = delta.taps};
}

std::string DescribeDelta(const ModelConfig& config) {
  const DeltaRule& delta = config.delta;
  return absl::StrCat("linear attention (", delta.value_heads, " value heads of ", delta.value_dim,
                      ", ", delta.key_heads, " key heads of ", delta.key_dim,
                      delta.by_channel ? ", a decay by channel" : "", ")");
}

constexpr MixerGgufName kGgufOfDelta[] = {
    {kDeltaQueryKeyValue, "attn_qkv"}, {kDeltaGate, "attn_gate"},    {kDeltaBetaDecay, "ssm_ba"},
    {kDeltaBeta, "ssm_beta"},          {kDeltaDecay, "ssm_alpha"},   {kDeltaFilter, "ssm_conv1d"},
    {kDeltaDecayLog, "ssm_a"},         {kDeltaDecayShift, "ssm_dt"}, {kDeltaNorm, "ssm_norm"},
    {kDeltaOutput, "ssm_out"},
};

}  // namespace

constinit const Mixer kGatedDelta = {
    .name = "linear attention",
    .layers_fact = "delta_layers",
    .layer_type = "linear_attention",
    .cache = MixerCache::kState,
    .output = kDeltaOutput,
    .shape = ShapeOfDelta,
    .run = RunDelta,
    .sizes = SizesOfDelta,
    .work = WorkOfDelta,
    .describe = DescribeDelta,
    .gguf = kGgufOfDelta,
};

}  // namespace moonring::model
