// A selective state space model as a block's mixer (Mamba-2: Dao and Gu, arXiv:2405.21060; Granite
// 4). With n = norm_a(x), H heads of P features, and G groups of H / G heads with N states each:
//
//   [z | u | B | C | d] = Wi n                                  H P, H P, G N, G N and H features
//   [u | B | C] = silu(convolution([u | B | C]) + b)            causal, depthwise
//   t     = softplus(d + c), clamped                            the step, c [H]
//   S_i   = exp(-exp(A) t_i) S_{i-1} + t_i u_i B_i^T            A [H]; S [P, N] of each head
//   y_i   = S_i C_i + D u_i                                     D [H]
//   heads = RmsNorm(y silu(z); w)                               each group of features separately
//
// The recurrence is that of the gated delta rule (gated_delta.cc) except that the old value is not
// subtracted (mixers/rule/delta_inputs.h): C, B, u, t and -exp(A) t take the roles of q, k, v, beta
// and g. So the code that splits a sequence of the delta rule over ranks is used here too.
//
// t, the recurrence and the norm are computed in fp32, or in fp64 if matmuls are in fp64.

#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/softplus.h>

#include "absl/strings/str_cat.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rows.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/gated_norm.h"
#include "model/blocks/input_maps.h"
#include "model/blocks/layers.h"
#include "model/config/config.h"
#include "model/mixers/mixers.h"

namespace moonring::model {
namespace {

// Reorders the mixer's inputs from [u | B | C], the order of the files, to [C | B | u], the order
// of the delta rule's [q | k | v].
at::Tensor AsOfTheRule(const StateSpaceRule& space, const at::Tensor& x, int64_t dim) {
  if (!x.defined()) return x;
  const int64_t shared = space.groups * space.states;
  // Uses split instead of several slices, because the backward of split allocates only one tensor.
  const std::vector<at::Tensor> parts = x.split_with_sizes({space.width(), shared, shared}, dim);
  return at::cat({parts[2], parts[1], parts[0]}, dim);
}

at::Tensor StepOf(const StateSpaceRule& space, const at::Tensor& shifted) {
  const at::Tensor step = at::softplus(shifted);
  if (space.least_step <= 0 && std::isinf(space.most_step)) return step;
  return at::clamp(step, space.least_step, space.most_step);
}

MixerOutput RunStateSpace(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                          const BlockRows& rows, attention::PlannedAttention&,
                          attention::KeptAttention*) {
  const StateSpaceRule& space = rule.state_space;
  const at::ScalarType wide = WideDtype(rule.matmul_dtype);
  const std::vector<at::Tensor> made =
      ProjectInput(rule, maps, hidden_TD, {kStateInput})[0].split_with_sizes(
          {space.width(), space.channels(), space.heads}, 1);
  const at::Tensor step_TH = StepOf(space, made[2].to(wide) + maps.Norm(kStateStepShift));
  const Projection& filter = maps.Map(kStateFilter);
  const at::Tensor out_THV =
      rows.mixing->Delta({.x_TC = AsOfTheRule(space, made[1], 1),
                          .taps_CW = AsOfTheRule(space, filter.weight_OI.select(1, 0), 0),
                          .bias_C = AsOfTheRule(space, filter.bias_O, 0),
                          .g = step_TH * -at::exp(maps.Norm(kStateDecayLog)),
                          .beta_TH = step_TH,
                          .skip_H = maps.Norm(kStateSkip),
                          .key_heads = space.groups,
                          .value_heads = space.heads,
                          .key_dim = space.states,
                          .value_dim = space.head_dim,
                          .options = {.delta = false},
                          .layer = rule.scores.layer});
  return {NormOfGated(out_THV.reshape({hidden_TD.size(0), space.width()}), made[0],
                      maps.Norm(kStateNorm), space.norm_eps, space.groups),
          {}};
}

std::vector<int64_t> ShapeOfStateSpace(const ModelConfig& config, const LayerRule&, int place) {
  const StateSpaceRule& space = config.state_space;
  const int64_t d = config.hidden_size;
  switch (place) {
    case kStateInput:
      return {space.width() + space.channels() + space.heads, d};
    case kStateFilter:
      return {space.channels(), 1, space.taps};
    case kStateDecayLog:
    case kStateStepShift:
    case kStateSkip:
      return {space.heads};
    case kStateNorm:
      return {space.width()};
    case kStateOutput:
      return {d, space.width()};
    default:
      return {};
  }
}

bool StateSpaceIsBiased(const ModelConfig& config, int place) {
  return place == kStateFilter ? config.state_space.filter_bias : config.state_space.map_bias;
}

std::vector<MixerSize> SizesOfStateSpace(const ModelConfig& config) {
  const StateSpaceRule& space = config.state_space;
  return {{"state_heads", "the number of the state space's heads", space.heads},
          {"state_head_dim", "the size of the state space's heads", space.head_dim},
          {"state_groups", "the number of the state space's groups", space.groups},
          {"states", "the number of states", space.states},
          {"state_taps", "the taps of the state space's convolution", space.taps},
          {"", "whether the state space's convolution has a bias", space.filter_bias},
          {"", "whether the state space's maps have biases", space.map_bias},
          {"", "the state space's least step", space.least_step},
          {"", "the state space's largest step", space.most_step},
          {"", "the eps of the state space's norm", space.norm_eps}};
}

MixerWork WorkOfStateSpace(const ModelConfig& config) {
  const StateSpaceRule& space = config.state_space;
  return {.key_heads = space.groups,
          .value_heads = space.heads,
          .key_dim = space.states,
          .value_dim = space.head_dim,
          .channels = space.channels(),
          .taps = space.taps,
          .reordered = true};
}

std::string DescribeStateSpace(const ModelConfig& config) {
  const StateSpaceRule& space = config.state_space;
  return absl::StrCat("a state space (", space.heads, " heads of ", space.head_dim, ", states ",
                      space.groups, " x ", space.states, ")");
}

}  // namespace

constinit const Mixer kStateSpace = {
    .name = "state space",
    .layers_fact = "state_space_layers",
    .layer_type = "linear_attention",
    .cache = MixerCache::kState,
    .output = kStateOutput,
    .shape = ShapeOfStateSpace,
    .biased = StateSpaceIsBiased,
    .run = RunStateSpace,
    .sizes = SizesOfStateSpace,
    .work = WorkOfStateSpace,
    .describe = DescribeStateSpace,
};

}  // namespace moonring::model
