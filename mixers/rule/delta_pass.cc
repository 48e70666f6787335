#include "mixers/rule/delta_pass.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "mixers/rule/delta_chunks.h"
#include "mixers/rule/fused_delta.h"
#include "mixers/rule/packed_heads.h"

namespace moonring::mixers {

DeltaPass DeltaForward(const DeltaInputs& inputs, const DocumentChunks& grid,
                       const DeltaOptions& options) {
  const at::Tensor& v = inputs.v_THV;
  const at::TensorOptions state_options = v.options().dtype(StateDtype(inputs));
  const int64_t heads = v.size(1), width = v.size(2), keys = inputs.k_THK.size(2);
  at::Tensor first = inputs.initial_DHVK;
  if (!first.defined()) first = at::zeros({grid.documents(), heads, width, keys}, state_options);
  const DeltaPass pass{at::empty_like(v, at::MemoryFormat::Contiguous),
                       at::empty_like(first, at::MemoryFormat::Contiguous),
                       at::empty({grid.chunks(), heads, width, keys}, state_options)};
  first = grid.Order(first);
  const auto fused = FusedDelta::Of(inputs, options);
  const DeltaTiles tiles = TilesOf(inputs, grid, options);
  for (const HeadSlice& slice : tiles.slices) {
    // After each part, `states` has the states of the part's documents at the part's end.
    const at::Tensor states = slice.OfValues(first);
    for (const DocumentChunks& part : tiles.parts) {
      const at::Tensor of_part = states.narrow(0, 0, part.documents());
      const at::Tensor out = slice.OfValues(pass.out_THV);
      const at::Tensor kept =
          slice.OfValues(pass.states_NHVK).narrow(0, part.chunks_before(), part.chunks());
      if (fused) {
        of_part.copy_(fused->Forward(slice, part, of_part, out, kept));
        continue;
      }
      const DeltaScan scan = ScanChunks(PackHeads(inputs, slice, part, options), part, of_part);
      part.Unpack(scan.out_NHCV, out);
      kept.copy_(scan.states_NHVK);
      of_part.copy_(scan.final_DHVK);
    }
    slice.OfValues(pass.final_DHVK).copy_(grid.Restore(states));
  }
  return pass;
}

DeltaInputs DeltaBackward(const DeltaInputs& inputs, const at::Tensor& states_NHVK,
                          const DocumentChunks& grid, const DeltaOptions& options,
                          const at::Tensor& d_out_THV, const at::Tensor& d_final_DHVK) {
  const at::Tensor& v = inputs.v_THV;
  const at::ScalarType dtype = StateDtype(inputs);
  const at::Tensor d_out = d_out_THV.defined() ? d_out_THV : at::zeros_like(v);
  const at::Tensor d_last =
      d_final_DHVK.defined()
          ? grid.Order(d_final_DHVK)
          : at::zeros({grid.documents(), v.size(1), v.size(2), inputs.k_THK.size(2)},
                      states_NHVK.options());
  const auto like = [](const at::Tensor& x) {
    return at::empty_like(x, at::MemoryFormat::Contiguous);
  };
  DeltaInputs gradients{like(inputs.q_THK), like(inputs.k_THK),   like(v),
                        like(inputs.g),     like(inputs.beta_TH), like(d_last)};
  const auto fused = FusedDelta::Of(inputs, options);
  const DeltaTiles tiles = TilesOf(inputs, grid, options);
  for (const HeadSlice& slice : tiles.slices) {
    const at::Tensor d_states = slice.OfValues(d_last);
    for (auto part = tiles.parts.rbegin(); part != tiles.parts.rend(); ++part) {
      const at::Tensor of_part = d_states.narrow(0, 0, part->documents());
      const at::Tensor states =
          slice.OfValues(states_NHVK).narrow(0, part->chunks_before(), part->chunks());
      if (fused) {
        of_part.copy_(fused->Backward(slice, *part, states, d_out, of_part, gradients));
        continue;
      }
      const DeltaChunkGradients made =
          ScanChunksBackward(PackHeads(inputs, slice, *part, options), *part, states,
                             part->Pack(slice.OfValues(d_out), dtype), of_part);
      UnpackHeadGradients(made.chunks, inputs, slice, *part, options, gradients);
      of_part.copy_(made.first_DHVK);
    }
    slice.OfValues(gradients.initial_DHVK).copy_(grid.Restore(d_states));
  }
  return gradients;
}

}  // namespace moonring::mixers
