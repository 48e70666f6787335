#include "model/blocks/delta_mixer.h"

#include <cmath>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

#include "model/blocks/gated_norm.h"
#include "model/blocks/input_maps.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"

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

}  // namespace

at::Tensor MixByDeltaRule(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                          mixers::PlannedMixing& mixing) {
  const DeltaRule& delta = rule.delta;
  const at::ScalarType wide = WideDtype(rule.matmul_dtype);
  Entrance entrance = Enter(rule, maps, hidden_TD);
  const at::Tensor out_THV = mixing.Delta(
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
  return GatedRmsNorm(out_THV.reshape({-1, delta.value_dim}),
                      entrance.gate_TV.reshape({-1, delta.value_dim}), maps.Norm(kDeltaNorm),
                      delta.norm_eps, delta.gate)
      .view({hidden_TD.size(0), delta.values()});
}

}  // namespace moonring::model
