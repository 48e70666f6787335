#include "mixers/cache/mixing_cache.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include "mixers/over_ranks/local_mixing.h"
#include "mixers/rule/delta_recurrence.h"
#include "mixers/rule/delta_rule.h"
#include "mixers/rule/short_convolution.h"

namespace moonring::mixers {

at::Tensor MixingCache::Convolved(const ConvolutionCall& call, Layer& layer) const {
  const at::Tensor& x = call.x_TC;
  TORCH_CHECK(x.dim() == 2 && call.taps_CW.dim() == 2 && call.taps_CW.size(1) > 0,
              "short convolution: expected x [T, C] and taps [C, W], got ", x.sizes(), " and ",
              call.taps_CW.sizes());
  TORCH_CHECK(!layer.last_RC.defined() || layer.last_RC.size(1) == x.size(1),
              "mixing cache: layer ", call.layer, " has rows ", layer.last_RC.sizes(), ", got ",
              x.sizes());
  const int64_t before = layer.last_RC.defined() ? layer.last_RC.size(0) : 0;
  const at::Tensor out = ShortConvolution(
      {.x_TC = x, .weight_CW = call.taps_CW, .bias_C = call.bias_C, .halo_RC = layer.last_RC},
      {x.size(0)}, {.silu = call.silu, .halo_lengths = {before}});
  const at::Tensor rows = before == 0 ? x : at::cat({layer.last_RC, x});
  const int64_t kept = std::min(rows.size(0), call.taps_CW.size(1) - 1);
  // The last rows are copied, so that the memory of all of the call's rows can be freed.
  layer.last_RC = rows.narrow(0, rows.size(0) - kept, kept).clone();
  return out;
}

at::Tensor MixingCache::Delta(const DeltaCall& call) {
  const at::NoGradGuard no_grad;
  Layer layer = layers_[call.layer];
  const at::Tensor qkv_TC =
      call.taps_CW.defined() ? Convolved(ConvolutionOf(call), layer) : call.x_TC;
  DeltaInputs inputs = InputsOf(call, qkv_TC);
  inputs.initial_DHVK = layer.state_1HVK;
  const int64_t tokens = qkv_TC.size(0);
  CheckDeltaInputs(inputs, {tokens});
  at::Tensor out;
  if (tokens == 1) {
    const DeltaStepResult step = DeltaStep(inputs, call.options);
    out = step.out_DHV;
    layer.state_1HVK = step.state_DHVK;
  } else {
    const DeltaResult result = GatedDeltaRule(inputs, {tokens}, call.options);
    out = result.out_THV;
    layer.state_1HVK = result.final_DHVK;
  }
  layer.tokens += tokens;
  layers_[call.layer] = layer;
  return WithSkip(out, inputs.v_THV, call.skip_H);
}

at::Tensor MixingCache::Convolve(const ConvolutionCall& call) {
  const at::NoGradGuard no_grad;
  Layer layer = layers_[call.layer];
  const at::Tensor out = Convolved(call, layer);
  layer.tokens += call.x_TC.size(0);
  layers_[call.layer] = layer;
  return out;
}

int64_t MixingCache::tokens() const {
  if (layers_.empty()) return 0;
  const int64_t tokens = layers_.begin()->second.tokens;
  for (const auto& [number, layer] : layers_)
    TORCH_CHECK(layer.tokens == tokens, "mixing cache: layer ", number, " has ", layer.tokens,
                " tokens, layer ", layers_.begin()->first, " has ", tokens);
  return tokens;
}

int64_t MixingCache::bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, layer] : layers_)
    for (const at::Tensor* tensor : {&layer.last_RC, &layer.state_1HVK})
      if (tensor->defined()) bytes += static_cast<int64_t>(tensor->nbytes());
  return bytes;
}

}  // namespace moonring::mixers
