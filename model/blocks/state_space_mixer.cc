#include "model/blocks/state_space_mixer.h"

#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/softplus.h>

#include "model/blocks/gated_norm.h"
#include "model/blocks/input_maps.h"
#include "model/blocks/layers.h"

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

}  // namespace

at::Tensor MixByStateSpace(const BlockRule& rule, const BlockMaps& maps,
                           const at::Tensor& hidden_TD, mixers::PlannedMixing& mixing) {
  const StateSpaceRule& space = rule.state_space;
  const at::ScalarType wide = WideDtype(rule.matmul_dtype);
  const std::vector<at::Tensor> made =
      ProjectInput(rule, maps, hidden_TD, {kStateInput})[0].split_with_sizes(
          {space.width(), space.channels(), space.heads}, 1);
  const at::Tensor step_TH = StepOf(space, made[2].to(wide) + maps.Norm(kStateStepShift));
  const Projection& filter = maps.Map(kStateFilter);
  const at::Tensor out_THV =
      mixing.Delta({.x_TC = AsOfTheRule(space, made[1], 1),
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
  return NormOfGated(out_THV.reshape({hidden_TD.size(0), space.width()}), made[0],
                     maps.Norm(kStateNorm), space.norm_eps, space.groups);
}

}  // namespace moonring::model
