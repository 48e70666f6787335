#include "mixers/rule/span.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diag_embed.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "mixers/rule/delta_chunks.h"
#include "mixers/rule/document_chunks.h"
#include "mixers/rule/fused_delta.h"
#include "mixers/rule/packed_heads.h"

namespace moonring::mixers {

SpanMap MapOfSpan(const DeltaInputs& inputs, const std::vector<int64_t>& lengths, bool continues,
                  const DeltaOptions& options) {
  CheckDeltaInputs(inputs, lengths);
  const at::NoGradGuard no_grad;
  const at::Tensor& v = inputs.v_THV;
  const int64_t heads = v.size(1), width = v.size(2), keys = inputs.k_THK.size(2);
  const at::TensorOptions state_options = v.options().dtype(StateDtype(inputs));
  // The state after the span depends only on its last document.
  const int64_t rows = lengths.empty() ? 0 : lengths.back();
  const bool passes = lengths.empty() || (continues && lengths.size() == 1);
  const auto last = [&](const at::Tensor& x) { return x.narrow(0, x.size(0) - rows, rows); };
  DeltaInputs document{{}, last(inputs.k_THK), last(v), last(inputs.g), last(inputs.beta_TH), {}};
  at::Tensor first = at::zeros({1, heads, width, keys}, state_options);
  if (passes && options.delta) {
    document.v_THV = at::cat({document.v_THV, at::zeros({rows, heads, keys}, v.options())}, 2);
    const at::Tensor identity = at::eye(keys, state_options).expand({1, heads, keys, keys});
    first = at::cat({first, identity}, 2);
  }
  const DocumentChunks grid({rows}, kDeltaChunk, v.device());
  at::Tensor made = first.contiguous();  // there is one document, so the grid's order is that of
                                         // the stream
  const auto fused = FusedDelta::Of(document, options);
  const DeltaTiles tiles = TilesOf(document, grid, options);
  for (const HeadSlice& slice : tiles.slices) {
    const at::Tensor state = slice.OfValues(made);
    for (const DocumentChunks& part : tiles.parts)
      state.copy_(
          fused ? fused->LastStates(slice, part, state)
                : ScanChunks(PackHeads(document, slice, part, options), part, state).final_DHVK);
  }
  made = made.select(0, 0);
  if (!passes) return {at::zeros({heads, keys, keys}, state_options), made};
  if (!options.delta) {
    at::Tensor decay = document.g.to(state_options.dtype()).sum(0).exp();
    if (decay.dim() == 1) decay = decay.unsqueeze(1).expand({heads, keys});
    return {at::diag_embed(decay), made};
  }
  return {made.narrow(1, width, keys).contiguous(), made.narrow(1, 0, width).contiguous()};
}

at::Tensor ApplySpan(const SpanMap& map, const at::Tensor& state_HVK) {
  return at::matmul(state_HVK, map.a_HKK) + map.b_HVK;
}

SpanMap ComposeSpans(const SpanMap& earlier, const SpanMap& later) {
  return {at::matmul(earlier.a_HKK, later.a_HKK), ApplySpan(later, earlier.b_HVK)};
}

at::Tensor SpanBackward(const SpanMap& map, const at::Tensor& gradient_HVK,
                        const at::Tensor& own_HVK) {
  return at::matmul(gradient_HVK, map.a_HKK.mT()) + own_HVK;
}

at::Tensor FirstStateGradient(const DeltaInputs& inputs, const at::Tensor& d_out_THV,
                              const DeltaOptions& options, const at::Tensor& d_last_HVK) {
  const at::NoGradGuard no_grad;
  const at::Tensor& v = inputs.v_THV;
  const at::ScalarType dtype = StateDtype(inputs);
  const DocumentChunks grid({v.size(0)}, kDeltaChunk, v.device());
  at::Tensor made =
      at::zeros({1, v.size(1), v.size(2), inputs.k_THK.size(2)}, v.options().dtype(dtype));
  if (d_last_HVK.defined()) made.select(0, 0).copy_(d_last_HVK);
  const auto fused = FusedDelta::Of(inputs, options);
  const DeltaTiles tiles = TilesOf(inputs, grid, options);
  for (const HeadSlice& slice : tiles.slices) {
    const at::Tensor gradient = slice.OfValues(made);
    for (auto part = tiles.parts.rbegin(); part != tiles.parts.rend(); ++part)
      gradient.copy_(fused ? fused->FirstStatesBackward(slice, *part, d_out_THV, gradient)
                           : FirstStatesBackward(PackHeads(inputs, slice, *part, options), *part,
                                                 part->Pack(slice.OfValues(d_out_THV), dtype),
                                                 gradient));
  }
  return made.select(0, 0);
}

}  // namespace moonring::mixers
