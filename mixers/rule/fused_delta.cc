#include "mixers/rule/fused_delta.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>

#include "kernels/choice.h"
#include "kernels/delta_pack.h"
#include "kernels/delta_scan.h"
#include "kernels/delta_scores.h"
#include "kernels/products/tf32_products.h"
#include "mixers/rule/packed_heads.h"

namespace moonring::mixers {
namespace {

// sum += factor a b, for all chunks and heads.
void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b,
                double factor = 1.0) {
  const auto batch = [](const at::Tensor& x) { return x.flatten(0, 1); };
  batch(sum).baddbmm_(batch(a), batch(b), 1.0, factor);
}

// The inputs in chunks, their scores and the inverse (fused_delta.h).
struct Inside {
  kernels::PackedDelta packed;
  at::Tensor query, key;  // query is undefined without q
  kernels::DeltaInverse inverse;
  at::Tensor whole() const { return packed.from_start.narrow(2, kDeltaChunk - 1, 1); }
};

Inside InsideOf(const DeltaInputs& inputs, const HeadSlice& heads, const DocumentChunks& grid,
                const DeltaOptions& options) {
  const kernels::DeltaRows rows{inputs.q_THK.defined() ? heads.OfKeys(inputs.q_THK) : inputs.q_THK,
                                heads.OfKeys(inputs.k_THK), heads.OfValues(inputs.v_THV),
                                heads.OfValues(inputs.g), heads.OfValues(inputs.beta_TH)};
  Inside inside{.packed = kernels::DeltaPack(rows, grid.token_of_slot(),
                                             {options.scale, options.normalize, options.eps})};
  const kernels::PackedDelta& packed = inside.packed;
  if (packed.q.defined()) inside.query = at::matmul(packed.q, packed.k.mT());
  inside.key = at::matmul(packed.k, packed.k.mT());
  inside.inverse = kernels::DeltaScores(inside.query, inside.key, packed.g, packed.beta);
  return inside;
}

// Runs the scan's kernel, in TF32 if matrix products are in TF32.
void Scan(const kernels::DeltaScanTensors& tensors, bool backward) {
  kernels::DeltaScan(tensors, backward, kernels::Tf32Products::AreOn());
}

// A contiguous copy that the scan may overwrite.
at::Tensor Copy(const at::Tensor& state) { return state.clone(at::MemoryFormat::Contiguous); }

}  // namespace

std::optional<FusedDelta> FusedDelta::Of(const DeltaInputs& inputs, const DeltaOptions& options) {
  const at::Tensor &q = inputs.q_THK, &k = inputs.k_THK, &v = inputs.v_THV;
  const auto wide = [](const at::Tensor& x) { return x.scalar_type() == at::kDouble; };
  const bool takes = options.delta && inputs.g.dim() == 2 && !wide(v) && !wide(inputs.g) &&
                     !wide(inputs.beta_TH) && k.scalar_type() == v.scalar_type() &&
                     (!q.defined() || q.scalar_type() == v.scalar_type()) && k.size(2) > 0 &&
                     v.size(2) > 0 && kernels::DeltaScanTakes(at::kFloat, kDeltaChunk, k.size(2)) &&
                     kernels::UseKernel(v, kernels::kDeltaPack) &&
                     kernels::UseKernel(v, kernels::kDeltaScores) &&
                     kernels::UseKernel(v, kernels::kDeltaScan);
  if (!takes) return std::nullopt;
  DeltaInputs taken = inputs;
  taken.g = inputs.g.to(at::kFloat);
  taken.beta_TH = inputs.beta_TH.to(at::kFloat);
  return FusedDelta(std::move(taken), options);
}

at::Tensor FusedDelta::Forward(const HeadSlice& heads, const DocumentChunks& grid,
                               const at::Tensor& first_DHVK, const at::Tensor& out_THV,
                               const at::Tensor& states_NHVK) const {
  const kernels::Tf32Products products(is_narrow());
  Inside inside = InsideOf(inputs_, heads, grid, options_);
  const at::Tensor written = at::matmul(inside.inverse.scaled_NHCC, inside.packed.v);  // first Y,
                                                                                       // then U
  const at::Tensor w = at::matmul(inside.inverse.scaled_NHCC, inside.packed.start_k);
  inside.packed.v = inside.packed.start_k = at::Tensor();
  const at::Tensor state = Copy(first_DHVK);
  const at::Tensor states = states_NHVK.is_contiguous()
                                ? states_NHVK
                                : at::empty(states_NHVK.sizes(), states_NHVK.options());
  Scan({.a_NHCK = w,
        .b_NHCK = inside.packed.end_k,
        .written_NHCV = written,
        .added_NHVK = {},
        .decay_NH1X = inside.whole(),
        .state_DHVK = state,
        .states_NHVK = states,
        .round_begin = grid.round_begin()},
       /*backward=*/false);
  if (!states_NHVK.is_contiguous()) states_NHVK.copy_(states);
  const at::Tensor out = at::matmul(inside.packed.start_q, states.mT());
  AddProduct(out, inside.query, written);
  kernels::DeltaUnpack(out, grid.token_of_slot(), {}, 1.0, 0.0, out_THV);
  return state;
}

at::Tensor FusedDelta::Backward(const HeadSlice& heads, const DocumentChunks& grid,
                                const at::Tensor& states_NHVK, const at::Tensor& d_out_THV,
                                const at::Tensor& d_last_DHVK, const DeltaInputs& gradients) const {
  const kernels::Tf32Products products(is_narrow());
  const at::Tensor states = states_NHVK.contiguous();
  const at::Tensor d_out = kernels::DeltaPackRows(heads.OfValues(d_out_THV), grid.token_of_slot());
  Inside inside = InsideOf(inputs_, heads, grid, options_);
  kernels::PackedDelta& packed = inside.packed;
  const at::Tensor unscaled = packed.v;  // V - K' M^T
  AddProduct(unscaled, packed.start_k, states.mT(), -1.0);
  const at::Tensor written = at::matmul(inside.inverse.scaled_NHCC, unscaled);  // U

  // The backward scan. The outputs add dO^T Q' to dM, and the contribution of U is subtracted.
  const at::Tensor d_written = at::matmul(inside.query.mT(), d_out);
  const at::Tensor first = Copy(d_last_DHVK);
  const at::Tensor d_states = at::empty_like(states);
  {
    const at::Tensor w = at::matmul(inside.inverse.scaled_NHCC, packed.start_k);
    const at::Tensor from_out = at::matmul(d_out.mT(), packed.start_q);
    packed.start_k = packed.start_q = at::Tensor();
    AddProduct(from_out, d_written.mT(), w, -1.0);
    Scan({.a_NHCK = packed.end_k,
          .b_NHCK = w,
          .written_NHCV = {},
          .added_NHVK = from_out,
          .decay_NH1X = inside.whole(),
          .state_DHVK = first,
          .states_NHVK = d_states,
          .round_begin = grid.round_begin()},
         /*backward=*/true);
  }

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
    kernels::DeltaUnpack(made, grid.token_of_slot(), options_.normalize ? normed : at::Tensor(),
                         scale, options_.eps, to);
  };
  unpack(dq, heads.OfKeys(gradients.q_THK), heads.OfKeys(inputs_.q_THK), options_.scale);
  unpack(dk, heads.OfKeys(gradients.k_THK), heads.OfKeys(inputs_.k_THK));
  unpack(d_right, heads.OfValues(gradients.v_THV));
  unpack(columns.g_NHC1, heads.OfValues(gradients.g).unsqueeze(2));
  unpack(columns.beta_NHC1, heads.OfValues(gradients.beta_TH).unsqueeze(2));
  return first;
}

at::Tensor FusedDelta::LastStates(const HeadSlice& heads, const DocumentChunks& grid,
                                  const at::Tensor& first_DHVK) const {
  const kernels::Tf32Products products(is_narrow());
  const Inside inside = InsideOf(inputs_, heads, grid, options_);
  const at::Tensor state = Copy(first_DHVK);
  Scan({.a_NHCK = at::matmul(inside.inverse.scaled_NHCC, inside.packed.start_k),
        .b_NHCK = inside.packed.end_k,
        .written_NHCV = at::matmul(inside.inverse.scaled_NHCC, inside.packed.v),
        .added_NHVK = {},
        .decay_NH1X = inside.whole(),
        .state_DHVK = state,
        .states_NHVK = at::empty({grid.chunks(), state.size(1), state.size(2), state.size(3)},
                                 state.options()),
        .round_begin = grid.round_begin()},
       /*backward=*/false);
  return state;
}

at::Tensor FusedDelta::FirstStatesBackward(const HeadSlice& heads, const DocumentChunks& grid,
                                           const at::Tensor& d_out_THV,
                                           const at::Tensor& d_last_DHVK) const {
  const kernels::Tf32Products products(is_narrow());
  const Inside inside = InsideOf(inputs_, heads, grid, options_);
  const at::Tensor d_out = kernels::DeltaPackRows(heads.OfValues(d_out_THV), grid.token_of_slot());
  const at::Tensor w = at::matmul(inside.inverse.scaled_NHCC, inside.packed.start_k);
  const at::Tensor from_out = at::matmul(d_out.mT(), inside.packed.start_q);
  AddProduct(from_out, at::matmul(inside.query.mT(), d_out).mT(), w, -1.0);
  const at::Tensor first = Copy(d_last_DHVK);
  Scan({.a_NHCK = inside.packed.end_k,
        .b_NHCK = w,
        .written_NHCV = {},
        .added_NHVK = from_out,
        .decay_NH1X = inside.whole(),
        .state_DHVK = first,
        .states_NHVK = at::empty_like(from_out),
        .round_begin = grid.round_begin()},
       /*backward=*/true);
  return first;
}

}  // namespace moonring::mixers
