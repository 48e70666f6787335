#include "mixers/delta_chunks.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>

#include "comm/kernels/choice.h"
#include "comm/kernels/delta_scan.h"
#include "mixers/decayed_scores.h"

namespace moonring::mixers {
namespace {

// What a chunk's equations are made of.
struct Terms {
  at::Tensor from_start, to_end, whole;  // exp(G), exp(G_C - G), exp(G_C)
  at::Tensor start_k, end_k;             // K', K*
  Scores scores;                         // query undefined without q
  at::Tensor inverse;                    // of I + Diag(beta) key
};

Terms TermsOf(const DeltaChunks& chunks) {
  Terms terms{.from_start = chunks.g.cumsum(2).exp_(), .to_end = SumAfter(chunks.g).exp_()};
  const int64_t rows = chunks.g.size(2);
  terms.whole = terms.from_start.narrow(2, rows - 1, 1);
  terms.start_k = chunks.k * terms.from_start;
  terms.end_k = chunks.k * terms.to_end;
  terms.scores = DecayedScores(chunks.q.defined() ? chunks.q : chunks.k, chunks.k, chunks.g);
  // One inverse of 64 x 64 serves all right sides, of which there are hundreds, and both
  // directions.
  terms.inverse = at::linalg_solve_triangular(terms.scores.key_NHCC * chunks.beta,
                                              at::eye(rows, chunks.k.options()), /*upper=*/false,
                                              /*left=*/true, /*unitriangular=*/true);
  return terms;
}

// The sum over channels where the decay is one for all of them.
at::Tensor OfDecay(const at::Tensor& x, const at::Tensor& g) {
  return g.size(3) == 1 ? x.sum(-1, /*keepdim=*/true) : x;
}

// Whether the scan is the kernel's.
bool UseScanKernel(const at::Tensor& k_NHCK) {
  return kernels::DeltaScanTakes(k_NHCK.scalar_type(), k_NHCK.size(2), k_NHCK.size(3)) &&
         kernels::UseKernel(k_NHCK, kernels::kDeltaScan);
}

// The gradients of the chunks' last states [N, H, V, K]; `first` comes in as that of the documents'
// last ones and goes out as that of their first ones.
at::Tensor StateGradients(const Terms& terms, const DocumentChunks& grid, const at::Tensor& w,
                          const at::Tensor& from_out_NHVK, at::Tensor& first_DHVK) {
  at::Tensor gradients = at::empty_like(from_out_NHVK);
  if (UseScanKernel(terms.end_k)) {
    kernels::DeltaScan({.a_NHCK = terms.end_k,
                        .b_NHCK = w,
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
    const at::Tensor written = at::matmul(state, round(terms.end_k).mT());
    state.mul_(round(terms.whole)).add_(round(from_out_NHVK));
    state.sub_(at::matmul(written, round(w)));
    end = begin;
  }
  return gradients;
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
  const at::Tensor solved =
      at::matmul(terms.inverse, at::cat({chunks.v, terms.start_k}, -1).mul_(chunks.beta));
  const at::Tensor written = solved.narrow(3, 0, width).contiguous();  // Y, and then U
  const at::Tensor w = solved.narrow(3, width, keys).contiguous();
  if (UseScanKernel(terms.end_k)) {
    kernels::DeltaScan({.a_NHCK = w,
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
      round(written).sub_(at::matmul(round(w), state.mT()));
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
  const Terms terms = TermsOf(chunks);
  const at::Tensor start_q = chunks.q * terms.from_start;
  const at::Tensor scaled_k = terms.start_k * chunks.beta;
  const at::Tensor unscaled = chunks.v - at::matmul(terms.start_k, states.mT());  // V - K' M^T
  const at::Tensor solved =
      at::matmul(terms.inverse, at::cat({unscaled * chunks.beta, scaled_k}, -1));
  const at::Tensor written = solved.narrow(3, 0, chunks.v.size(3));  // U
  const at::Tensor w = solved.narrow(3, chunks.v.size(3), chunks.k.size(3)).contiguous();

  // The scan, backward. L^-T (query^T dO) is what reaches the right side from O alone.
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
  const at::Tensor from_start = OfDecay(d_start_q * start_q + d_start_k * terms.start_k, chunks.g);
  const at::Tensor to_end = OfDecay(d_end_k * terms.end_k, chunks.g);
  const at::Tensor whole =
      OfDecay((d_states * states).sum(2, /*keepdim=*/true), chunks.g) * terms.whole;
  result.chunks.g = in_scores.g_NHCX.add_(SumAfter(from_start))
                        .add_(from_start)
                        .add_(SumBefore(to_end))
                        .add_(whole);
  return result;
}

at::Tensor FirstStatesBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                               const at::Tensor& out, const at::Tensor& final_DHVK) {
  at::Tensor first_DHVK = final_DHVK.clone(at::MemoryFormat::Contiguous);
  if (grid.chunks() == 0) return first_DHVK;
  const Terms terms = TermsOf(chunks);
  const at::Tensor scaled_k = terms.start_k * chunks.beta;
  const at::Tensor d_right =
      at::matmul(terms.inverse.mT(), at::matmul(terms.scores.query_NHCC.mT(), out));
  const at::Tensor from_out =
      at::matmul(out.mT(), chunks.q * terms.from_start).sub_(at::matmul(d_right.mT(), scaled_k));
  StateGradients(terms, grid, at::matmul(terms.inverse, scaled_k), from_out, first_DHVK);
  return first_DHVK;
}

}  // namespace moonring::mixers
