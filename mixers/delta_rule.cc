#include "mixers/delta_rule.h"

#include <memory>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "comm/autograd/custom_function.h"
#include "mixers/delta_chunks.h"
#include "mixers/document_chunks.h"
#include "mixers/packed_heads.h"

namespace moonring::mixers {
namespace {

comm::Tensors Forward(const DeltaInputs& inputs, const DocumentChunks& grid,
                      const DeltaOptions& options, at::Tensor& states_NHVK) {
  const at::Tensor& v = inputs.v_THV;
  const at::TensorOptions state_options = v.options().dtype(StateDtype(inputs));
  const int64_t heads = v.size(1), width = v.size(2), keys = inputs.k_THK.size(2);
  at::Tensor out = at::empty_like(v, at::MemoryFormat::Contiguous);
  states_NHVK = at::empty({grid.chunks(), heads, width, keys}, state_options);
  at::Tensor first = inputs.initial_DHVK;
  if (!first.defined()) first = at::zeros({grid.documents(), heads, width, keys}, state_options);
  at::Tensor last = at::empty_like(first, at::MemoryFormat::Contiguous);
  first = grid.Order(first);
  for (const HeadSlice& slice : SlicesOf(inputs, grid)) {
    const DeltaScan scan =
        ScanChunks(PackHeads(inputs, slice, grid, options), grid.rounds(), slice.OfValues(first));
    slice.OfValues(out).copy_(grid.Unpack(scan.out_NHCV));
    slice.OfValues(states_NHVK).copy_(scan.states_NHVK);
    slice.OfValues(last).copy_(grid.Restore(scan.final_DHVK));
  }
  return {out, last};
}

// `out` and `last` may be undefined: zeros.
comm::Tensors Backward(const DeltaInputs& inputs, const at::Tensor& states_NHVK,
                       const DocumentChunks& grid, const DeltaOptions& options,
                       const at::Tensor& out, const at::Tensor& last) {
  const at::Tensor& v = inputs.v_THV;
  const at::ScalarType dtype = StateDtype(inputs);
  const at::Tensor d_out = out.defined() ? out : at::zeros_like(v);
  const at::Tensor d_last =
      last.defined() ? grid.Order(last)
                     : at::zeros({grid.documents(), v.size(1), v.size(2), inputs.k_THK.size(2)},
                                 states_NHVK.options());
  const auto like = [](const at::Tensor& x) {
    return at::empty_like(x, at::MemoryFormat::Contiguous);
  };
  DeltaInputs gradients{like(inputs.q_THK), like(inputs.k_THK),   like(v),
                        like(inputs.g),     like(inputs.beta_TH), like(d_last)};
  for (const HeadSlice& slice : SlicesOf(inputs, grid)) {
    const DeltaChunkGradients made = ScanChunksBackward(
        PackHeads(inputs, slice, grid, options), grid.rounds(), slice.OfValues(states_NHVK),
        grid.Pack(slice.OfValues(d_out), dtype), slice.OfValues(d_last));
    UnpackHeadGradients(made.chunks, inputs, slice, grid, options, gradients);
    slice.OfValues(gradients.initial_DHVK).copy_(grid.Restore(made.first_DHVK));
  }
  return {gradients.q_THK, gradients.k_THK,   gradients.v_THV,
          gradients.g,     gradients.beta_TH, gradients.initial_DHVK};
}

}  // namespace

DeltaResult GatedDeltaRule(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                           const DeltaOptions& options) {
  CheckDeltaInputs(inputs, lengths);
  const auto grid =
      std::make_shared<const DocumentChunks>(lengths, kDeltaChunk, inputs.v_THV.device());
  comm::Tensors made = comm::Apply(
      {.name = "gated delta rule",
       .forward = [&](comm::Tensors* saved) -> comm::Tensors {
         at::Tensor states;
         comm::Tensors outputs = Forward(inputs, *grid, options, states);
         *saved = {inputs.q_THK, inputs.k_THK,   inputs.v_THV,
                   inputs.g,     inputs.beta_TH, std::move(states)};
         return outputs;
       },
       .backward = [grid, options](comm::BackwardCall& call) -> comm::Tensors {
         const comm::Tensors& saved = call.saved;
         comm::Tensors gradients =
             Backward({saved[0], saved[1], saved[2], saved[3], saved[4], {}}, saved[5], *grid,
                      options, call.gradients[0], call.gradients[1]);
         if (!call.wanted[5]) gradients.pop_back();
         return gradients;
       },
       .undefined_gradients = true},
      {inputs.q_THK, inputs.k_THK, inputs.v_THV, inputs.g, inputs.beta_TH, inputs.initial_DHVK});
  return {std::move(made[0]), std::move(made[1])};
}

}  // namespace moonring::mixers
