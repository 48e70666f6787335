#include "mixers/fused_delta.h"

#include <algorithm>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "comm/kernels/choice.h"
#include "comm/kernels/delta_pack.h"
#include "comm/kernels/delta_scan.h"
#include "comm/kernels/delta_scores.h"
#include "mixers/packed_heads.h"

namespace moonring::mixers {
namespace {

// How many numbers the heads that go together have in a tensor of all their chunks: 64 MiB. The
// scan takes as long for few heads as for many.
constexpr int64_t kNumbers = int64_t{1} << 24;

// All heads, with all chunks of each; one key head at least.
std::vector<HeadSlice> SlicesOf(const DeltaInputs& inputs, const DocumentChunks& grid) {
  const int64_t key_heads = inputs.k_THK.size(1), groups = inputs.v_THV.size(1) / key_heads;
  const int64_t step = KeysAtOnce(kNumbers, grid.chunks(),
                                  std::max(inputs.k_THK.size(2), inputs.v_THV.size(2)), groups);
  std::vector<HeadSlice> slices;
  for (int64_t begin = 0; begin < key_heads; begin += step)
    slices.push_back({begin, std::min(step, key_heads - begin), groups});
  return slices;
}

// sum += factor a b, of all chunks and heads.
void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b,
                double factor = 1.0) {
  const auto batch = [](const at::Tensor& x) { return x.flatten(0, 1); };
  batch(sum).baddbmm_(batch(a), batch(b), 1.0, factor);
}

// Some heads of the inputs.
struct Slice {
  const HeadSlice& heads;
  const DeltaInputs& inputs;

  kernels::DeltaRows Rows() const {
    const auto wide = [&](const at::Tensor& x) { return heads.OfValues(x).to(at::kFloat); };
    return {inputs.q_THK.defined() ? heads.OfKeys(inputs.q_THK) : inputs.q_THK,
            heads.OfKeys(inputs.k_THK), heads.OfValues(inputs.v_THV), wide(inputs.g),
            wide(inputs.beta_TH)};
  }
};

// Chunks, their scores and the inverse.
struct Inside {
  kernels::PackedDelta packed;
  at::Tensor query, key;  // query undefined without q
  kernels::DeltaInverse inverse;
  at::Tensor whole() const { return packed.from_start.narrow(2, kDeltaChunk - 1, 1); }
};

Inside InsideOf(const Slice& slice, const DocumentChunks& grid, const DeltaOptions& options) {
  Inside inside{.packed = kernels::DeltaPack(slice.Rows(), grid.token_of_slot(),
                                             {options.scale, options.normalize, options.eps})};
  const kernels::PackedDelta& packed = inside.packed;
  if (packed.q.defined()) inside.query = at::matmul(packed.q, packed.k.mT());
  inside.key = at::matmul(packed.k, packed.k.mT());
  inside.inverse = kernels::DeltaScores(inside.query, inside.key, packed.g, packed.beta);
  return inside;
}

}  // namespace

bool UseFusedDelta(const DeltaInputs& inputs, const DocumentChunks& grid,
                   const DeltaOptions& options) {
  const at::Tensor& v = inputs.v_THV;
  const at::ScalarType dtype = v.scalar_type();
  return options.delta && inputs.g.dim() == 2 && dtype != at::kDouble &&
         (!inputs.q_THK.defined() || inputs.q_THK.scalar_type() == dtype) &&
         inputs.k_THK.scalar_type() == dtype && grid.chunks() > 0 && inputs.k_THK.size(2) > 0 &&
         v.size(2) > 0 && kernels::DeltaScanTakes(at::kFloat, kDeltaChunk, inputs.k_THK.size(2)) &&
         kernels::UseKernel(v, kernels::kDeltaPack) &&
         kernels::UseKernel(v, kernels::kDeltaScores) && kernels::UseKernel(v, kernels::kDeltaScan);
}

void FusedDeltaForward(const DeltaInputs& inputs, const DocumentChunks& grid,
                       const DeltaOptions& options, const at::Tensor& first_DHVK,
                       const FusedDeltaOutputs& outputs) {
  for (const HeadSlice& heads : SlicesOf(inputs, grid)) {
    Inside inside = InsideOf({heads, inputs}, grid, options);
    const at::Tensor written =
        at::matmul(inside.inverse.scaled_NHCC, inside.packed.v);  // Y, then U
    const at::Tensor w = at::matmul(inside.inverse.scaled_NHCC, inside.packed.start_k);
    inside.packed.v = inside.packed.start_k = at::Tensor();
    const at::Tensor state = heads.OfValues(first_DHVK).clone(at::MemoryFormat::Contiguous);
    const at::Tensor place = heads.OfValues(outputs.states_NHVK);
    const at::Tensor states =
        place.is_contiguous() ? place : at::empty(place.sizes(), place.options());
    kernels::DeltaScan({.a_NHCK = w,
                        .b_NHCK = inside.packed.end_k,
                        .written_NHCV = written,
                        .added_NHVK = {},
                        .decay_NH1X = inside.whole(),
                        .state_DHVK = state,
                        .states_NHVK = states,
                        .round_begin = grid.round_begin()},
                       /*backward=*/false);
    if (!place.is_contiguous()) place.copy_(states);
    heads.OfValues(outputs.final_DHVK).copy_(grid.Restore(state));
    const at::Tensor out = at::matmul(inside.packed.start_q, states.mT());
    AddProduct(out, inside.query, written);
    kernels::DeltaUnpack(out, grid.slot_of_token(), {}, 1.0, 0.0, heads.OfValues(outputs.out_THV));
  }
}

void FusedDeltaBackward(const DeltaInputs& inputs, const at::Tensor& states_NHVK,
                        const DocumentChunks& grid, const DeltaOptions& options,
                        const at::Tensor& d_out_THV, const at::Tensor& d_last_DHVK,
                        const DeltaInputs& gradients) {
  for (const HeadSlice& heads : SlicesOf(inputs, grid)) {
    const at::Tensor states = heads.OfValues(states_NHVK).contiguous();
    const at::Tensor d_out =
        kernels::DeltaPackRows(heads.OfValues(d_out_THV), grid.token_of_slot());
    Inside inside = InsideOf({heads, inputs}, grid, options);
    kernels::PackedDelta& packed = inside.packed;
    const at::Tensor unscaled = packed.v;  // V - K' M^T
    AddProduct(unscaled, packed.start_k, states.mT(), -1.0);
    const at::Tensor written = at::matmul(inside.inverse.scaled_NHCC, unscaled);  // U

    // The scan, backward. From the outputs alone dM gets dO^T Q' less what goes through U.
    const at::Tensor d_written = at::matmul(inside.query.mT(), d_out);
    const at::Tensor first = heads.OfValues(d_last_DHVK).clone(at::MemoryFormat::Contiguous);
    const at::Tensor d_states = at::empty_like(states);
    {
      const at::Tensor w = at::matmul(inside.inverse.scaled_NHCC, packed.start_k);
      const at::Tensor from_out = at::matmul(d_out.mT(), packed.start_q);
      packed.start_k = packed.start_q = at::Tensor();
      AddProduct(from_out, d_written.mT(), w, -1.0);
      kernels::DeltaScan({.a_NHCK = packed.end_k,
                          .b_NHCK = w,
                          .written_NHCV = {},
                          .added_NHVK = from_out,
                          .decay_NH1X = inside.whole(),
                          .state_DHVK = first,
                          .states_NHVK = d_states,
                          .round_begin = grid.round_begin()},
                         /*backward=*/true);
    }
    heads.OfValues(gradients.initial_DHVK).copy_(grid.Restore(first));

    AddProduct(d_written, packed.end_k, d_states.mT());
    packed.end_k = at::Tensor();
    const at::Tensor d_right = at::matmul(inside.inverse.inverse_NHCC.mT(), d_written);
    const at::Tensor by_query = at::matmul(d_out, written.mT());
    const at::Tensor by_key = at::matmul(d_right, written.mT());
    const kernels::DeltaColumns columns = kernels::DeltaScoresBackward(
        by_query, by_key, inside.query, inside.key, packed.g, packed.beta);
    const at::Tensor dq = at::matmul(by_query, packed.k);
    const at::Tensor dk = at::matmul(by_query.mT(), packed.q);
    AddProduct(dk, by_key, packed.k);
    kernels::DeltaGradients({.dq = dq,
                             .dk = dk,
                             .dr = d_right,
                             .d_start_q = at::matmul(d_out, states),
                             .d_start_k = at::matmul(d_right, states),
                             .d_end_k = at::matmul(written, d_states),
                             .q = packed.q,
                             .k = packed.k,
                             .unscaled = unscaled,
                             .states = states,
                             .d_states = d_states,
                             .beta = packed.beta,
                             .from_start = packed.from_start,
                             .to_end = packed.to_end,
                             .dbeta = columns.beta_NHC1,
                             .dg = columns.g_NHC1});

    const auto unpack = [&](const at::Tensor& made, const at::Tensor& to,
                            const at::Tensor& normed = {}, double scale = 1.0) {
      kernels::DeltaUnpack(made, grid.slot_of_token(), options.normalize ? normed : at::Tensor(),
                           scale, options.eps, to);
    };
    // A column goes home in fp32, and from there in the dtype of its input.
    const auto unpack_column = [&](const at::Tensor& made, const at::Tensor& to) {
      const at::Tensor rows = at::empty({to.size(0), to.size(1), 1}, made.options());
      unpack(made, rows);
      to.copy_(rows.squeeze(2));
    };
    unpack(dq, heads.OfKeys(gradients.q_THK), heads.OfKeys(inputs.q_THK), options.scale);
    unpack(dk, heads.OfKeys(gradients.k_THK), heads.OfKeys(inputs.k_THK));
    unpack(d_right, heads.OfValues(gradients.v_THV));
    unpack_column(columns.g_NHC1, heads.OfValues(gradients.g));
    unpack_column(columns.beta_NHC1, heads.OfValues(gradients.beta_TH));
  }
}

at::Tensor FusedLastStates(const DeltaInputs& inputs, const DocumentChunks& grid,
                           const DeltaOptions& options, const at::Tensor& first_DHVK) {
  const at::Tensor last = at::empty_like(first_DHVK, at::MemoryFormat::Contiguous);
  for (const HeadSlice& heads : SlicesOf(inputs, grid)) {
    const Inside inside = InsideOf({heads, inputs}, grid, options);
    const at::Tensor state = heads.OfValues(first_DHVK).clone(at::MemoryFormat::Contiguous);
    kernels::DeltaScan(
        {.a_NHCK = at::matmul(inside.inverse.scaled_NHCC, inside.packed.start_k),
         .b_NHCK = inside.packed.end_k,
         .written_NHCV = at::matmul(inside.inverse.scaled_NHCC, inside.packed.v),
         .added_NHVK = {},
         .decay_NH1X = inside.whole(),
         .state_DHVK = state,
         .states_NHVK = at::empty({grid.chunks(), state.size(1), state.size(2), state.size(3)},
                                  state.options()),
         .round_begin = grid.round_begin()},
        /*backward=*/false);
    heads.OfValues(last).copy_(state);
  }
  return last;
}

at::Tensor FusedFirstStatesBackward(const DeltaInputs& inputs, const DocumentChunks& grid,
                                    const DeltaOptions& options, const at::Tensor& d_out_THV) {
  const at::Tensor& v = inputs.v_THV;
  const at::Tensor made = at::empty({grid.documents(), v.size(1), v.size(2), inputs.k_THK.size(2)},
                                    v.options().dtype(at::kFloat));
  for (const HeadSlice& heads : SlicesOf(inputs, grid)) {
    const Inside inside = InsideOf({heads, inputs}, grid, options);
    const at::Tensor d_out =
        kernels::DeltaPackRows(heads.OfValues(d_out_THV), grid.token_of_slot());
    const at::Tensor w = at::matmul(inside.inverse.scaled_NHCC, inside.packed.start_k);
    const at::Tensor from_out = at::matmul(d_out.mT(), inside.packed.start_q);
    AddProduct(from_out, at::matmul(inside.query.mT(), d_out).mT(), w, -1.0);
    const at::Tensor first =
        at::zeros({grid.documents(), from_out.size(1), from_out.size(2), from_out.size(3)},
                  from_out.options());
    kernels::DeltaScan({.a_NHCK = inside.packed.end_k,
                        .b_NHCK = w,
                        .written_NHCV = {},
                        .added_NHVK = from_out,
                        .decay_NH1X = inside.whole(),
                        .state_DHVK = first,
                        .states_NHVK = at::empty_like(from_out),
                        .round_begin = grid.round_begin()},
                       /*backward=*/true);
    heads.OfValues(made).copy_(first);
  }
  return made;
}

}  // namespace moonring::mixers
