#include "mixers/rule/delta_chunks.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/choice.h"
#include "kernels/delta_scan.h"
#include "mixers/rule/decayed_scores.h"

namespace moonring::mixers {
namespace {

// The terms of a chunk's equations (delta_chunks.h).
struct Terms {
  at::Tensor from_start, to_end, whole;  // exp(G), exp(G_C - G), exp(G_C)
  at::Tensor start_k, end_k;             // K' (only if DeltaOptions::delta is on), K*
  Scores scores;                         // query is undefined without q; key if DeltaOptions::delta
                                         // is off
  at::Tensor inverse;                    // inverse of I + Diag(beta) key; undefined if
                                         // DeltaOptions::delta is off
};

Terms TermsOf(const DeltaChunks& chunks) {
  Terms terms{.from_start = chunks.g.cumsum(2).exp_(), .to_end = SumAfter(chunks.g).exp_()};
  const int64_t rows = chunks.g.size(2);
  terms.whole = terms.from_start.narrow(2, rows - 1, 1);
  terms.end_k = chunks.k * terms.to_end;
  if (!chunks.delta && !chunks.q.defined()) return terms;
  terms.scores =
      DecayedScores(chunks.q.defined() ? chunks.q : chunks.k, chunks.k, chunks.g, chunks.delta);
  if (!chunks.delta) return terms;
  terms.start_k = chunks.k * terms.from_start;
  // The inverse (64 x 64) is computed since it is applied to hundreds of right-hand sides, in the
  // forward and the backward.
  terms.inverse = at::linalg_solve_triangular(terms.scores.key_NHCC * chunks.beta,
                                              at::eye(rows, chunks.k.options()), /*upper=*/false,
                                              /*left=*/true, /*unitriangular=*/true);
  return terms;
}

// Sums over the channels if all channels share one decay.
at::Tensor OfDecay(const at::Tensor& x, const at::Tensor& g) {
  return g.size(3) == 1 ? x.sum(-1, /*keepdim=*/true) : x;
}

// Whether the scan runs as a GPU kernel.
bool UseScanKernel(const at::Tensor& k_NHCK) {
  return kernels::DeltaScanTakes(k_NHCK.scalar_type(), k_NHCK.size(2), k_NHCK.size(3)) &&
         kernels::UseKernel(k_NHCK, kernels::kDeltaScan);
}

// The scan's kernel always needs a W. It is 0 if DeltaOptions::delta is off.
at::Tensor OrZeros(const at::Tensor& w, const at::Tensor& k_NHCK) {
  return w.defined() ? w : at::zeros_like(k_NHCK);
}

// Returns the gradients of the chunks' final states [N, H, V, K]. On entry `first_DHVK` is the
// gradient of the documents' final states; on return it is the gradient of their initial states.
// `w` is undefined if DeltaOptions::delta is off.
at::Tensor StateGradients(const Terms& terms, const DocumentChunks& grid, const at::Tensor& w,
                          const at::Tensor& from_out_NHVK, at::Tensor& first_DHVK) {
  at::Tensor gradients = at::empty_like(from_out_NHVK);
  if (UseScanKernel(terms.end_k)) {
    kernels::DeltaScan({.a_NHCK = terms.end_k,
                        .b_NHCK = OrZeros(w, terms.end_k),
                        .written_NHCV = {},
                        .added_NHVK = from_out_NHVK,
                        .decay_NH1X = terms.whole,
                        .state_DHVK = first_DHVK,
                        .states_NHVK = gradients,
                        .round_begin = grid.round_begin()},
                       /*backward=*/true);
    return gradients;
  }
  const std::vector<int64_t>& rounds = grid.rounds();
  int64_t end = gradients.size(0);
  for (auto count = rounds.rbegin(); count != rounds.rend(); ++count) {
    const int64_t begin = end - *count;
    const auto round = [&](const at::Tensor& x) { return x.narrow(0, begin, *count); };
    const at::Tensor state = first_DHVK.narrow(0, 0, *count);
    round(gradients).copy_(state);
    const at::Tensor written = w.defined() ? at::matmul(state, round(terms.end_k).mT()) : w;
    state.mul_(round(terms.whole)).add_(round(from_out_NHVK));
    if (w.defined()) state.sub_(at::matmul(written, round(w)));
    end = begin;
  }
  return gradients;
}

// The gradient of g. The four contributions come from the scores, from exp(G), from exp(G_C - G)
// and from the decay of states.
at::Tensor DecayGradient(const at::Tensor& in_scores, const at::Tensor& by_start,
                         const at::Tensor& by_end, const at::Tensor& by_states, const Terms& terms,
                         const at::Tensor& g) {
  const at::Tensor from_start = OfDecay(by_start, g);
  return in_scores.add(SumAfter(from_start))
      .add_(from_start)
      .add_(SumBefore(OfDecay(by_end, g)))
      .add_(OfDecay(by_states.sum(2, /*keepdim=*/true), g) * terms.whole);
}

DeltaChunkGradients BackwardWithoutDelta(const DeltaChunks& chunks, const DocumentChunks& grid,
                                         const at::Tensor& states, const at::Tensor& out,
                                         at::Tensor first_DHVK) {
  const Terms terms = TermsOf(chunks);
  const at::Tensor start_q = chunks.q * terms.from_start, written = chunks.v * chunks.beta;
  const at::Tensor d_states =
      StateGradients(terms, grid, {}, at::matmul(out.mT(), start_q), first_DHVK);
  const at::Tensor d_written =
      at::matmul(terms.scores.query_NHCC.mT(), out).add_(at::matmul(terms.end_k, d_states.mT()));
  const at::Tensor d_start_q = at::matmul(out, states), d_end_k = at::matmul(written, d_states);
  ScoreGradients in_scores = DecayedScoresBackward({at::matmul(out, written.mT()), {}},
                                                   terms.scores, chunks.q, chunks.k, chunks.g);
  DeltaChunkGradients result{.chunks = {}, .first_DHVK = std::move(first_DHVK)};
  result.chunks.q = in_scores.q_NHCK.add_(d_start_q * terms.from_start);
  result.chunks.k = in_scores.k_NHCK.add_(d_end_k * terms.to_end);
  result.chunks.v = d_written * chunks.beta;
  result.chunks.beta = (d_written * chunks.v).sum(-1, /*keepdim=*/true);
  result.chunks.g = DecayGradient(in_scores.g_NHCX, d_start_q * start_q, d_end_k * terms.end_k,
                                  d_states * states, terms, chunks.g);
  return result;
}

}  // namespace

DeltaScan ScanChunks(const DeltaChunks& chunks, const DocumentChunks& grid,
                     const at::Tensor& first_DHVK) {
  const int64_t width = chunks.v.size(3), keys = chunks.k.size(3);
  DeltaScan scan{.final_DHVK = first_DHVK.clone(at::MemoryFormat::Contiguous)};
  scan.states_NHVK =
      at::empty({chunks.k.size(0), chunks.k.size(1), width, keys}, chunks.k.options());
  if (grid.chunks() == 0) {
    if (chunks.q.defined()) scan.out_NHCV = at::empty_like(chunks.v);
    return scan;
  }
  const Terms terms = TermsOf(chunks);
  at::Tensor written, w;  // first Y, then U
  if (chunks.delta) {
    const at::Tensor solved =
        at::matmul(terms.inverse, at::cat({chunks.v, terms.start_k}, -1).mul_(chunks.beta));
    written = solved.narrow(3, 0, width).contiguous();
    w = solved.narrow(3, width, keys).contiguous();
  } else {
    written = chunks.v * chunks.beta;
  }
  if (UseScanKernel(terms.end_k)) {
    kernels::DeltaScan({.a_NHCK = OrZeros(w, terms.end_k),
                        .b_NHCK = terms.end_k,
                        .written_NHCV = written,
                        .added_NHVK = {},
                        .decay_NH1X = terms.whole,
                        .state_DHVK = scan.final_DHVK,
                        .states_NHVK = scan.states_NHVK,
                        .round_begin = grid.round_begin()},
                       /*backward=*/false);
  } else {
    int64_t begin = 0;
    for (const int64_t count : grid.rounds()) {
      const auto round = [&](const at::Tensor& x) { return x.narrow(0, begin, count); };
      const at::Tensor state = scan.final_DHVK.narrow(0, 0, count);
      round(scan.states_NHVK).copy_(state);
      if (w.defined()) round(written).sub_(at::matmul(round(w), state.mT()));
      state.mul_(round(terms.whole)).add_(at::matmul(round(written).mT(), round(terms.end_k)));
      begin += count;
    }
  }
  if (!chunks.q.defined()) return scan;
  scan.out_NHCV = at::matmul(chunks.q * terms.from_start, scan.states_NHVK.mT());
  scan.out_NHCV.add_(at::matmul(terms.scores.query_NHCC, written));
  return scan;
}

DeltaChunkGradients ScanChunksBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                                       const at::Tensor& states, const at::Tensor& out,
                                       const at::Tensor& final_DHVK) {
  DeltaChunkGradients result;
  result.first_DHVK = final_DHVK.clone(at::MemoryFormat::Contiguous);
  if (grid.chunks() == 0) {
    result.chunks = chunks;  // no rows
    return result;
  }
  if (!chunks.delta) return BackwardWithoutDelta(chunks, grid, states, out, result.first_DHVK);
  const Terms terms = TermsOf(chunks);
  const at::Tensor start_q = chunks.q * terms.from_start;
  const at::Tensor scaled_k = terms.start_k * chunks.beta;
  const at::Tensor unscaled = chunks.v - at::matmul(terms.start_k, states.mT());  // V - K' M^T
  const at::Tensor solved =
      at::matmul(terms.inverse, at::cat({unscaled * chunks.beta, scaled_k}, -1));
  const at::Tensor written = solved.narrow(3, 0, chunks.v.size(3));  // U
  const at::Tensor w = solved.narrow(3, chunks.v.size(3), chunks.k.size(3)).contiguous();

  // The backward scan. With L the triangular system, L^-T (query^T dO) is the contribution of O to
  // the gradient of the right-hand side.
  at::Tensor d_right =
      at::matmul(terms.inverse.mT(), at::matmul(terms.scores.query_NHCC.mT(), out));
  const at::Tensor from_out =
      at::matmul(out.mT(), start_q).sub_(at::matmul(d_right.mT(), scaled_k));
  const at::Tensor d_states = StateGradients(terms, grid, w, from_out, result.first_DHVK);
  d_right = d_right + at::matmul(terms.inverse.mT(), at::matmul(terms.end_k, d_states.mT()));

  const at::Tensor d_system = at::matmul(d_right, written.mT()).neg_();
  const at::Tensor d_unscaled = d_right * chunks.beta;
  const at::Tensor d_start_k = at::matmul(d_unscaled, states).neg_();
  const at::Tensor d_start_q = at::matmul(out, states);
  const at::Tensor d_end_k = at::matmul(written, d_states);
  ScoreGradients in_scores =
      DecayedScoresBackward({at::matmul(out, written.mT()), d_system * chunks.beta}, terms.scores,
                            chunks.q, chunks.k, chunks.g);
  result.chunks.q = in_scores.q_NHCK.add_(d_start_q * terms.from_start);
  result.chunks.k =
      in_scores.k_NHCK.add_(d_start_k * terms.from_start).add_(d_end_k * terms.to_end);
  result.chunks.v = d_unscaled;
  result.chunks.beta = (d_right * unscaled).sum(-1, /*keepdim=*/true) +
                       (d_system * terms.scores.key_NHCC).sum(-1, /*keepdim=*/true);
  result.chunks.g = DecayGradient(in_scores.g_NHCX, d_start_q * start_q + d_start_k * terms.start_k,
                                  d_end_k * terms.end_k, d_states * states, terms, chunks.g);
  return result;
}

at::Tensor FirstStatesBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                               const at::Tensor& out, const at::Tensor& final_DHVK) {
  at::Tensor first_DHVK = final_DHVK.clone(at::MemoryFormat::Contiguous);
  if (grid.chunks() == 0) return first_DHVK;
  const Terms terms = TermsOf(chunks);
  const at::Tensor from_out = at::matmul(out.mT(), chunks.q * terms.from_start);
  if (!chunks.delta) {
    StateGradients(terms, grid, {}, from_out, first_DHVK);
    return first_DHVK;
  }
  const at::Tensor scaled_k = terms.start_k * chunks.beta;
  const at::Tensor d_right =
      at::matmul(terms.inverse.mT(), at::matmul(terms.scores.query_NHCC.mT(), out));
  from_out.sub_(at::matmul(d_right.mT(), scaled_k));
  StateGradients(terms, grid, at::matmul(terms.inverse, scaled_k), from_out, first_DHVK);
  return first_DHVK;
}

}  // namespace moonring::mixers
